// Ranks the sections of the site for a query. Does not use the DOM, so that tests can call it.

/** Words without meaning for a search. */
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

/** Computed once per visit, for `rank`. */
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

/** The possible stems of a typed word: its own, or those that start with it while it is being typed. */
const meantBy = (word, counts) => {
  if (counts.has(word)) return counts.get(word)
  if (word.length < 3) return 0
  for (const [known, count] of counts) if (known.startsWith(word)) return count * 0.5
  return 0
}

/** The best sections first, at most two per page. A rare word counts more than a frequent one. */
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
      // A section that lacks a word is rarely the wanted one; one with the word in a short heading usually is.
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
