// A long table gets a field that hides the rows without all of its words, and headings that sort by their column.
// Without this script the table stands as it was written. Tables whose cells reach over several rows are left alone.
const FEWEST = 6; // rows, below which a table is seen at a glance

function key(text) {
  // "< 0.1", "−3.2", "0.962 [0.9, 1.0]", "30 blocks": by the number that it begins with
  const found = text.replace(/\u2212/g, "-").match(/^[<>≤≥~]?\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?![\w])/i);
  return found ? Number(found[1]) : NaN;
}

function compare(a, b, down) {
  const empty = (a.text === "" || a.text === "n/a") - (b.text === "" || b.text === "n/a");
  if (empty) return empty; // what is missing is last, in both directions
  const numbers = [key(a.text), key(b.text)];
  const plain = numbers.some(Number.isNaN) ? a.text.localeCompare(b.text, "en", { numeric: true }) : numbers[0] - numbers[1];
  return (down ? -plain : plain) || a.place - b.place;
}

function sort(table, column) {
  const head = table.tHead.rows[0].cells[column];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, place) => ({ row, place, text: row.cells[column].innerText.trim() }));
  body.append(...rows.sort((a, b) => compare(a, b, down)).map((each) => each.row));
}

function filter(table, words, count) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  count.textContent = wanted.length ? `${shown} of ${rows.length} rows` : "";
}

for (const table of document.querySelectorAll(".wide > table")) {
  const body = table.tBodies[0];
  if (!table.tHead || table.tBodies.length !== 1 || body.rows.length < FEWEST) continue;
  const width = table.tHead.rows[0].cells.length;
  const plain = [...body.rows].every((row) => row.cells.length === width);
  if (!plain || table.tHead.rows.length !== 1 || table.querySelector("[rowspan], [colspan]")) continue;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column));
    head.append(button);
  });
  const bar = document.createElement("p");
  bar.className = "filter";
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Filter rows";
  field.setAttribute("aria-label", "Filter rows of the table below");
  const count = document.createElement("span");
  count.setAttribute("aria-live", "polite");
  field.addEventListener("input", () => filter(table, field.value, count));
  bar.append(field, count);
  table.parentElement.before(bar);
}
