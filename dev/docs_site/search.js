// Finds sections of the site that have all the words. The index is loaded when somebody starts to search.
const { root } = document.currentScript.dataset
const input = document.getElementById('search')
const list = document.getElementById('found')
let index

const load = () => {
  index ??= fetch(`${root}search.json`)
    .then((response) => response.json())
    .then((sections) =>
      sections.map((section) => ({
        ...section,
        lower: {
          page: section.page.toLowerCase(),
          heading: section.heading.toLowerCase(),
          text: section.text.toLowerCase(),
        },
      })),
    )
  return index
}

/** Headings count more than pages, and pages more than text. 0: a word is missing. */
function score({ lower }, words) {
  let sum = 0
  for (const word of words) {
    const found =
      (lower.heading.includes(word) ? 20 : 0) +
      (lower.page.includes(word) ? 5 : 0) +
      Math.min(4, lower.text.split(word).length - 1)
    if (found === 0) return 0
    sum += found
  }
  return sum
}

function entry({ page, heading, address, text, lower }, [first]) {
  const item = document.createElement('li')
  const link = document.createElement('a')
  link.href = root + address
  const title = document.createElement('strong')
  title.textContent = heading === page ? page : `${page}: ${heading}`
  const start = Math.max(0, lower.text.indexOf(first) - 40)
  const excerpt = document.createElement('span')
  excerpt.textContent = `${start ? '…' : ''}${text.slice(start, start + 140)}`
  link.append(title, excerpt)
  item.append(link)
  return item
}

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
  const sections = words.length ? await load() : []
  const best = sections
    .map((section) => ({ section, points: score(section, words) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, 12)
  list.replaceChildren(...best.map(({ section }) => entry(section, words)))
  if (words.length && best.length === 0) {
    const nothing = document.createElement('li')
    nothing.textContent = 'Nothing found.'
    list.append(nothing)
  }
  list.hidden = words.length === 0
}

input.addEventListener('focus', load)
input.addEventListener('input', search)
addEventListener('keydown', (event) => {
  const links = [...list.querySelectorAll('a')]
  const at = links.indexOf(document.activeElement)
  if (event.key === '/' && document.activeElement === document.body) input.focus()
  else if (event.key === 'Escape' && !list.hidden) {
    list.hidden = true
    input.focus()
  } else if (event.key === 'ArrowDown' && !list.hidden) links[at + 1]?.focus()
  else if (event.key === 'ArrowUp' && at >= 0) (links[at - 1] ?? input).focus()
  else if (event.key === 'Enter' && document.activeElement === input && links[0]) links[0].click()
  else return
  event.preventDefault()
})
addEventListener('click', (event) => {
  if (!event.target.closest('search')) list.hidden = true
})
