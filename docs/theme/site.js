// The list of pages is open where there is room for it beside the text.
const pages = document.querySelector(".pages details");
const room = matchMedia("(min-width: 60rem)");
const fit = () => { pages.open = room.matches; };
fit();
room.addEventListener("change", fit);
addEventListener("keydown", (event) => {
  const field = document.getElementById("mkdocs-search-query");
  if (event.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
    event.preventDefault();
    field.focus();
  }
  if (event.key === "Escape") {
    field.value = "";
    field.dispatchEvent(new Event("keyup"));
    field.blur();
  }
});
