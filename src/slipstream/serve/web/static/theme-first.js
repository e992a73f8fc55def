// Runs before the page is painted, so that a chosen theme does not flash the other one.
(() => {
  const theme = localStorage.getItem("slipstream.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
