// Redirects from an address of an earlier release to the current page and the same section.
const { to, sections } = document.currentScript.dataset
const moved = JSON.parse(sections)[location.hash.slice(1)]
location.replace(moved ?? to + location.hash)
