"use strict";
// Tables: sorting by a heading, filtering by text and kind, opening a line, copying a command.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  const compare = (type, direction) => (a, b) => {
    // What has no value stays last, whichever way the rest is sorted.
    if (a.value === "" || b.value === "") return (a.value === "") - (b.value === "");
    const order = type === "number" ? Number(a.value) - Number(b.value)
      : a.value.localeCompare(b.value, "en", { numeric: true });
    return direction === "ascending" ? order : -order;
  };

  const sortBy = (heading, button) => {
    const table = heading.closest("table");
    const column = [...heading.parentNode.children].indexOf(heading);
    const first = button.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const direction = heading.getAttribute("aria-sort") === first ? other : first;
    for (const each of heading.parentNode.children) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
    const lines = all(":scope > tbody", table).map((line) => ({
      line, value: line.rows[0].cells[column].dataset.value ?? "",
    }));
    lines.sort(compare(button.dataset.type, direction));
    table.append(...lines.map((each) => each.line));
  };

  const filter = () => {
    const text = document.getElementById("filter-text");
    if (!text) return;
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kinds = new Set(all("input[name=kind]:checked").map((box) => box.value));
    const lines = all("tbody.line");
    let shown = 0;
    for (const line of lines) {
      const name = line.dataset.text.toLowerCase();
      line.hidden = !(kinds.has(line.dataset.kind) && words.every((word) => name.includes(word)));
      shown += !line.hidden;
    }
    for (const board of all(".board")) {
      board.querySelector(".nothing").hidden = Boolean(board.querySelector("tbody.line:not([hidden])"));
    }
    document.getElementById("filter-count").textContent =
      shown === lines.length ? `${shown} lines` : `${shown} of ${lines.length} lines`;
  };

  const toggle = (button) => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
  };

  const copy = async (button) => {
    const code = button.parentNode.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    } catch {
      getSelection().selectAllChildren(code); // no clipboard here: the text is marked, ready to be copied by hand
    }
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.matches(".copy")) copy(button);
    else if (button.matches(".more")) toggle(button);
    else if (button.closest("table.leaderboard > thead")) sortBy(button.closest("th"), button);
  });
  document.addEventListener("input", (event) => { if (event.target.closest(".filter")) filter(); });
  document.addEventListener("submit", (event) => event.preventDefault());
  // Contents are open beside the page on a laptop, and closed above it on a phone.
  if (matchMedia("(max-width: 60rem)").matches) all("nav details").forEach((each) => { each.open = false; });
  filter();
})();
