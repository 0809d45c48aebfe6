import { hash } from 'node:crypto'

/** SQL with its parameters apart. PostgreSQL parses and plans each text once per connection, under its name. */
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

/** Whatever is interpolated is a parameter, unless it is SQL made by this tag itself. */
export const sql = (strings: TemplateStringsArray, ...parts: (SqlValue | Fragment)[]): Fragment =>
  new Fragment(strings, parts)

/** Nothing: for a condition that is not asked for. */
export const nothing = sql``

const names = new Map<string, string>()

function nameOf(text: string): string {
  let name = names.get(text)
  if (!name) {
    name = hash('sha1', text, 'hex')
    names.set(text, name)
  }
  return name
}

export function toStatement(fragment: Fragment): Sql {
  const values: SqlValue[] = []
  const text = append(fragment, values)
  return { text, values, name: nameOf(text) }
}

function append({ strings, parts }: Fragment, values: SqlValue[]): string {
  let text = strings[0] ?? ''
  for (const [index, part] of parts.entries()) {
    text += part instanceof Fragment ? append(part, values) : `$${values.push(part)}`
    text += strings[index + 1]
  }
  return text
}
