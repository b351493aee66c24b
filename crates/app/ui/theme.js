// Owns which colours are shown. Runs before the page is drawn, so that nobody in the dark is dazzled; no module, for modules run later.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let choice = "";
  const apply = () => {
    const isChosen = choice === "light" || choice === "dark";
    document.documentElement.dataset.theme = isChosen ? choice : system.matches ? "dark" : "light";
  };
  try {
    choice = localStorage.getItem("windlass.theme");
  } catch (error) {
    console.debug("the theme is not kept", error.name);
  }
  system.addEventListener("change", apply);
  document.addEventListener("windlass-theme", ({ detail }) => {
    choice = detail;
    apply();
  });
  apply();
})();
