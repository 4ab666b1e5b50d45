"use strict";
// Tables that sort: each heading becomes a button, and a live region says what was done.
(() => {
  const live = document.createElement("p");
  live.className = "hidden";
  live.setAttribute("role", "status");
  document.body.append(live);

  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // Number, text, or null where there is nothing to sort by.
  function valueOf(row, column, kind) {
    const cell = row.cells[column];
    if (kind === "number") {
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    }
    return cell.textContent.trim() || null;
  }

  function compare(a, b) {
    return typeof a === "number" ? a - b : collator.compare(a, b);
  }

  function sort(table, head, column) {
    const kind = head.dataset.kind;
    // Text from A on first, numbers from the largest on: what one mostly looks for.
    const first = kind === "number" ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, column, kind), row]);
    rows.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : sign * compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const each of table.tHead.rows[0].cells) {
      each.removeAttribute("aria-sort");
    }
    head.setAttribute("aria-sort", order);
    live.textContent = `Sorted by ${head.textContent}, ${order}.`;
  }

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  }

  // What is folded is printed too.
  const folded = [];
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      folded.push(details);
    }
  });
  addEventListener("afterprint", () => {
    for (const details of folded.splice(0)) {
      details.open = false;
    }
  });
})();
