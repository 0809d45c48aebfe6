// Leads from the address of an earlier release to the page of today, and to the same section.
const { to, sections } = document.currentScript.dataset
const moved = JSON.parse(sections)[location.hash.slice(1)]
location.replace(moved ?? to + location.hash)
