// The search field. Loads the index when a reader starts to search.
import { prepare, rank } from './search_rank.js'

const root = new URL('.', import.meta.url)
const input = document.getElementById('search')
const list = document.getElementById('found')
let index

const load = () => {
  index ??= fetch(new URL('search.json', root))
    .then((response) => response.json())
    .then(prepare)
  return index
}

const part = (name, className, text) => {
  const element = document.createElement(name)
  if (className) element.className = className
  element.textContent = text
  return element
}

function entry({ page, heading, address, text, kind }, query) {
  const link = document.createElement('a')
  link.href = new URL(address, root).href
  link.append(part('strong', '', heading === page ? page : `${page}: ${heading}`))
  if (kind) link.append(part('em', '', kind))
  const lower = text.toLowerCase()
  const found = query
    .toLowerCase()
    .split(/\s+/)
    .map((word) => lower.indexOf(word))
    .filter((place) => place >= 0)
  const start = Math.max(0, Math.min(...found, text.length) - 40)
  const from = found.length ? start : 0
  link.append(part('span', '', `${from ? '…' : ''}${text.slice(from, from + 140)}`))
  const item = document.createElement('li')
  item.append(link)
  return item
}

async function search() {
  const query = input.value.trim()
  const best = query ? rank(await load(), query) : []
  if (query !== input.value.trim()) return
  list.replaceChildren(...best.map((section) => entry(section, query)))
  if (query && best.length === 0) list.append(part('li', '', 'Nothing found.'))
  list.hidden = query === ''
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
