// Ranks the sections of the site for what a reader typed. Without a document, so that tests can ask it too.

/** Words that say nothing about what is wanted. */
const fillers = new Set(
  'a an and any are as at be by can do does for from get has have how i if in into is it its me my of on or our should some that the their there they this to up use using want was we what when where which who why will with you your'.split(
    ' ',
  ),
)

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []

/** 'policies' finds 'policy', and 'restarting' finds 'restart'. */
const stem = (word) =>
  word.includes('_') || word.length < 4 ? word : word.replace(/ies$/, 'y').replace(/(?:ing|ed|es|s|e)$/, '')

const stemsOf = (text) => wordsOf(text).map(stem)

const countsOf = (text) => {
  const counts = new Map()
  for (const word of stemsOf(text)) counts.set(word, (counts.get(word) ?? 0) + 1)
  return counts
}

/** Once for each visit: what `rank` looks at. */
export function prepare(sections) {
  const prepared = sections.map((section) => ({
    section,
    fields: [
      { counts: countsOf(section.heading), points: 12, most: 1 },
      { counts: countsOf(`${section.page} ${section.keywords ?? ''}`), points: 7, most: 1 },
      { counts: countsOf(section.text), points: 1.5, most: 3 },
    ],
    length: wordsOf(section.heading).length,
  }))
  const seen = new Map()
  for (const { fields } of prepared)
    for (const word of new Set(fields.flatMap(({ counts }) => [...counts.keys()])))
      seen.set(word, (seen.get(word) ?? 0) + 1)
  return { prepared, seen }
}

/** The stems that a typed word may stand for: itself, or while it is being typed, what begins with it. */
const meantBy = (word, counts) => {
  if (counts.has(word)) return counts.get(word)
  if (word.length < 3) return 0
  for (const [known, count] of counts) if (known.startsWith(word)) return count * 0.5
  return 0
}

/** The best sections first, at most two of a page. A rare word counts more than one that is everywhere. */
export function rank({ prepared, seen }, query, limit = 12) {
  const typed = [...new Set(stemsOf(query))]
  const meant = typed.filter((word) => !fillers.has(word))
  const words = meant.length ? meant : typed
  const rarity = (word) => Math.log(1 + prepared.length / (1 + (seen.get(word) ?? 0)))
  const ranked = prepared
    .map(({ section, fields, length }) => {
      let points = 0
      let found = 0
      for (const word of words) {
        const own = fields.reduce(
          (sum, { counts, points: each, most }) => sum + each * Math.min(most, meantBy(word, counts)),
          0,
        )
        if (own > 0) found++
        points += own * rarity(word)
      }
      // A section that lacks a word is rarely what was meant; a short heading that has it usually is.
      const whole = (found / words.length) ** 3
      const named = section.kind === 'operation' && section.text.startsWith(`${query.trim()} `) ? 1000 : 0
      return { section, points: (points * whole * section.weight) / (1 + length / 20) + named }
    })
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
  const taken = new Map()
  return ranked
    .filter(({ section }) => {
      const page = section.address.split('#')[0]
      taken.set(page, (taken.get(page) ?? 0) + 1)
      return section.kind === 'operation' || taken.get(page) <= 2
    })
    .slice(0, limit)
    .map(({ section }) => section)
}
