// Copy buttons on code, and a mark in the table of contents for the section that is being read.
for (const code of document.querySelectorAll('main pre')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.className = 'copy'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(code.querySelector('code').textContent)
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1500)
  })
  const frame = document.createElement('div')
  frame.className = 'code'
  code.replaceWith(frame)
  frame.append(code, button)
}

const entries = new Map(
  [...document.querySelectorAll('aside a')].map((link) => [decodeURIComponent(link.hash.slice(1)), link]),
)
const headings = [...document.querySelectorAll('main :is(h2, h3)')].filter(({ id }) => entries.has(id))
const markCurrent = () => {
  const passed = headings.filter((heading) => heading.getBoundingClientRect().top < 120)
  const current = (passed.at(-1) ?? headings[0])?.id
  for (const [id, link] of entries) link.classList.toggle('current', id === current)
}
if (headings.length) {
  addEventListener('scroll', markCurrent, { passive: true })
  markCurrent()
}
