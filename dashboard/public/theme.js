// Before the first paint, so that a chosen theme does not flash. Not a module: those wait for the document.
const theme = localStorage.getItem('gatehouse-theme')
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
