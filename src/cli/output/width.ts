// cspell:ignore Nonspacing
import { eastAsianWidth } from 'get-east-asian-width'

let segmenter: Intl.Segmenter | undefined

/** Splits into the characters that people see: a flag, an accented letter or a family emoji is one. */
export function charactersOf(text: string): string[] {
  // Created on demand: loading Unicode's rules takes half as long as starting Node, and most text is ASCII.
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' })
  return Array.from(segmenter.segment(text), ({ segment }) => segment)
}

export const widthOf = (text: string): number =>
  /^[ -~]*$/.test(text) ? text.length : charactersOf(text).reduce((sum, each) => sum + widthOfCharacter(each), 0)

function widthOfCharacter(character: string): number {
  if (isEmoji(character)) return 2
  const isVisible = (each: string) =>
    /[^\p{Default_Ignorable_Code_Point}\p{Control}\p{Format}\p{Nonspacing_Mark}\p{Enclosing_Mark}\p{Surrogate}]/v.test(
      each,
    )
  const [base, ...others] = [...character].filter(isVisible)
  if (base === undefined) return 0
  // What follows is drawn over the base, but for marks with a place of their own and the marks of half-width katakana.
  const beside = others.filter((each) => /[\p{Spacing_Mark}\uff00-\uffef]/v.test(each))
  return [base, ...beside].reduce((sum, each) => sum + eastAsianWidth(each.codePointAt(0) ?? 0), 0)
}

const isEmoji = (character: string): boolean =>
  /[\p{Extended_Pictographic}\p{Regional_Indicator}\u20e3]/v.test(character) && emojiSequences().test(character)

const emojiForms = [
  '^\\p{RGI_Emoji}$',
  '\\p{Extended_Pictographic}\\u200d\\p{Extended_Pictographic}',
  '^[\\d#*]\\u20e3$',
]
let emoji: RegExp | undefined
function emojiSequences(): RegExp {
  // Not a literal: Node would load Unicode's list of emoji together with this file.
  emoji ??= new RegExp(emojiForms.join('|'), 'v')
  return emoji
}
