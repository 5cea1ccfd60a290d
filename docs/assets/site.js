// The theme puts each copy button into a nav without a name: many landmarks that are none.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll("nav.md-code__nav:not([role])")) nav.setAttribute("role", "presentation");
}).observe(document.body, { childList: true, subtree: true });
