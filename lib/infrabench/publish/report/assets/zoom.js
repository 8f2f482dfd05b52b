// A click on a figure shows it over the page, as large as the window. Keys, buttons and clicks make it larger; it then
// scrolls in the window. Without this script the same link opens the figure's file.
const STEPS = [1, 1.5, 2, 3, 4, 6, 8]; // times the window

function show(link) {
  const shown = link.querySelector("img");
  const view = document.createElement("dialog");
  view.className = "zoomed";
  view.setAttribute("aria-label", shown.alt);
  const picture = document.createElement("img");
  picture.src = link.href;
  picture.alt = shown.alt;
  let step = 0;

  function zoom(to, x = view.clientWidth / 2, y = view.clientHeight / 2) {
    const next = Math.min(Math.max(to, 0), STEPS.length - 1);
    const grows = STEPS[next] / STEPS[step];
    const [left, top] = [(view.scrollLeft + x) * grows - x, (view.scrollTop + y) * grows - y];
    step = next;
    picture.style.width = `${100 * STEPS[step]}%`;
    picture.style.height = `${100 * STEPS[step]}%`;
    view.classList.toggle("larger", step > 0);
    view.scrollTo(left, top); // the point under the pointer stays where it is
  }

  const bar = document.createElement("div");
  bar.className = "bar";
  for (const [text, words, act] of [
    ["−", "Smaller", () => zoom(step - 1)],
    ["+", "Larger", () => zoom(step + 1)],
    ["Close", "Close", () => view.close()],
  ]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", words);
    button.addEventListener("click", act);
    bar.append(button);
  }
  view.append(bar, picture);
  picture.addEventListener("click", (event) => zoom(step ? 0 : 3, event.clientX, event.clientY));
  view.addEventListener("click", (event) => event.target === view && view.close());
  view.addEventListener("keydown", (event) => {
    const to = { "+": step + 1, "=": step + 1, "-": step - 1, 0: 0 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    zoom(to);
  });
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // a plain wheel scrolls
    event.preventDefault();
    zoom(step + (event.deltaY < 0 ? 1 : -1), event.clientX, event.clientY);
  }, { passive: false });
  view.addEventListener("close", () => {
    view.remove();
    link.focus();
  });
  document.body.append(view);
  view.showModal();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.zoom");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  show(link);
});
