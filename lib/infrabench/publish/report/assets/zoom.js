// A click on a figure shows it over the page, as large as the window; another one in its own size, to move about in.
// Without this script the same link opens the figure's file.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.zoom");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const shown = link.querySelector("img");
  const view = document.createElement("dialog");
  view.className = "zoomed";
  view.setAttribute("aria-label", shown.alt);
  const picture = document.createElement("img");
  picture.src = link.href;
  picture.alt = shown.alt;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  view.append(close, picture);
  view.addEventListener("click", (inside) => {
    if (inside.target === picture) view.classList.toggle("larger");
    else view.close();
  });
  view.addEventListener("close", () => {
    view.remove();
    link.focus();
  });
  document.body.append(view);
  view.showModal();
});
