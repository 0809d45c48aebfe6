import type { Request } from './exchanges.ts'

/** How the values look that differ from run to run. */
const kinds: Record<string, string> = {
  token: 'gatehouse_[0-9A-Za-z]{49}',
  session: 'gatehouse_session_[0-9A-Za-z]{49}',
  etag: '[\\w-]{27}(?:\\.[\\w-]{12})?',
  time: '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z',
}
const hour = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:00:00\\.000Z'
const idOf = (prefix: string) => `${prefix}_[0-9a-z]{26}`
const shapeOf = (placeholder: string): string => {
  const kind = placeholder.replace(/_\d+$/, '')
  return kind === 'hour' ? hour : (kinds[kind] ?? idOf(kind))
}
const anyValue = new RegExp(
  `\\b(?:${kinds.session}|${kinds.token}|${kinds.time}|([a-z]+)_[0-9a-z]{26})\\b|(?<=^")${kinds.etag}(?="$)`,
  'g',
)
const placeholder = /\{([a-z]+(?:_\d+)?)\}/g

/** Which value stands behind which placeholder. */
export class Placeholders {
  private readonly values = new Map<string, string>()
  private readonly names = new Map<string, string>()

  constructor(values: Iterable<readonly [name: string, value: string]>) {
    for (const [name, value] of values) this.bind(name, value)
  }

  tokens = (): string[] => [...this.values.values()].filter((value) => value.startsWith('gatehouse_'))

  /** Whether responses have shown all that a request needs. */
  canFill = ({ as, request, headers, body }: Request): boolean =>
    [as && `{${as}}`, request, JSON.stringify(headers), body].every((text) =>
      Array.from(text?.matchAll(placeholder) ?? []).every(([, name = '']) => this.values.has(name)),
    )

  /** From placeholders to values. */
  fill = (text: string): string =>
    text
      .replaceAll(/\{x\*(\d+)\}/g, (_, count) => 'x'.repeat(Number(count)))
      .replaceAll(placeholder, (_, name) => {
        const value = this.values.get(name)
        if (value === undefined) throw new Error(`no response has shown {${name}} yet`)
        return value
      })

  /** From values to placeholders; a new value gets the next one of its kind. */
  name(text: string): string {
    return text.replaceAll(anyValue, (value, prefix?: string) => {
      const kind = prefix ?? Object.keys(kinds).find((each) => new RegExp(`^${kinds[each]}$`).test(value)) ?? ''
      if (kind === 'time') {
        // Those that a request chose are years away.
        if (Math.abs(Date.parse(value) - Date.now()) > 60 * 86_400_000) return value
        if (new RegExp(`^${hour}$`).test(value)) return '{hour}'
      }
      const name = this.names.get(value) ?? `${kind}_${this.count(kind) + 1}`
      this.bind(name, value)
      return `{${name}}`
    })
  }

  /** From values to placeholders, of those that are known. */
  nameKnown = (text: string): string =>
    text.replaceAll(anyValue, (value) => (this.names.has(value) ? `{${this.names.get(value)}}` : value))

  /** Whether the text is the template with a value in the place of each placeholder: always the same, and its own. */
  matches(template: string, text: string): boolean {
    const names = Array.from(template.matchAll(placeholder), ([, name = '']) => name)
    const literals = template.split(/\{[a-z]+(?:_\d+)?\}/).map((literal) => RegExp.escape(literal))
    const pattern = literals.map((literal, at) => literal + (names[at] ? `(${shapeOf(names[at])})` : '')).join('')
    const found = new RegExp(`^${pattern}$`).exec(text)
    if (!found) return false
    return names.every((name, at) => name === 'hour' || this.bind(name, found[at + 1] ?? ''))
  }

  private count = (kind: string): number => [...this.values.keys()].filter((name) => name.startsWith(`${kind}_`)).length

  /** False if the placeholder stands for another value, or the value has another placeholder. Two times may coincide. */
  private bind(name: string, value: string): boolean {
    if (!this.values.has(name) && (name.startsWith('time_') || !this.names.has(value))) {
      this.values.set(name, value)
      this.names.set(value, name)
    }
    return this.values.get(name) === value
  }
}
