// Before the first paint, so that a chosen theme does not flash. Not a module: those wait for the document.
for (const name of ['theme', 'density']) {
  const chosen = localStorage.getItem(`gatehouse-${name}`)
  if (['light', 'dark', 'compact'].includes(chosen)) document.documentElement.dataset[name] = chosen
}
