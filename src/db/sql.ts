import { hash } from 'node:crypto'

/** SQL with separate parameters. PostgreSQL parses and plans each text once per connection, under its name. */
export type Sql = { readonly text: string; readonly values: readonly SqlValue[]; readonly name: string }
export type SqlValue = string | number | boolean | bigint | null | Buffer | readonly SqlValue[]

class Fragment {
  readonly strings: readonly string[]
  readonly parts: readonly (SqlValue | Fragment)[]

  constructor(strings: readonly string[], parts: readonly (SqlValue | Fragment)[]) {
    this.strings = strings
    this.parts = parts
  }
}
export type SqlFragment = Fragment

/** An interpolated value becomes a parameter, unless it is a fragment built by this tag. */
export const sql = (strings: TemplateStringsArray, ...parts: (SqlValue | Fragment)[]): Fragment =>
  new Fragment(strings, parts)

/** Empty SQL, in place of an optional condition. */
export const nothing = sql``

/**
 * Cache of statement texts, keyed by the template pieces in order. A template reuses the same pieces, so its text is
 * built once and later uses cost one step per piece.
 */
type Known = { readonly next: Map<readonly string[], Known>; text?: string; name?: string }
const root: Known = { next: new Map() }

export function toStatement(fragment: Fragment): Sql {
  const values: SqlValue[] = []
  const known = gather(fragment, values, root)
  if (known.text === undefined) {
    known.text = textOf(fragment, { count: 0 })
    known.name = hash('sha1', known.text, 'hex')
  }
  return { text: known.text, values, name: known.name as string }
}

function gather({ strings, parts }: Fragment, values: SqlValue[], from: Known): Known {
  let known = from.next.get(strings)
  if (!known) {
    known = { next: new Map() }
    from.next.set(strings, known)
  }
  for (const part of parts) {
    if (part instanceof Fragment) known = gather(part, values, known)
    else values.push(part)
  }
  return known
}

function textOf({ strings, parts }: Fragment, parameters: { count: number }): string {
  let text = strings[0] ?? ''
  for (const [index, part] of parts.entries()) {
    text += part instanceof Fragment ? textOf(part, parameters) : `$${++parameters.count}`
    text += strings[index + 1]
  }
  return text
}
