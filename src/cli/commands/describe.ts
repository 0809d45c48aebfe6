import { type Connection, call } from '../call.ts'
import { exits, Failure } from '../exits.ts'
import type { Operation } from '../operation.ts'
import { operations } from '../operations.ts'
import { write } from '../output/output.ts'
import { describeOne, isRef } from '../output/table.ts'
import { styled } from '../output/terminal.ts'
import type { ClientConfig } from '../profiles.ts'
import { readResource } from '../resource.ts'

const usageOf = (
  words: string,
) => `Show a resource and what it uses: an edge with its backends, their health, and its IP policies with their rules.

Usage
  gatehouse ${words} describe <id>

--profile, --timeout and --verbose are as for other commands.`

type Json = Record<string, unknown>
type Ref = { id: string; uri: string }

/** Enough for an edge with many routes. */
const maxRelated = 50
/** Paths below a resource to read, if the API has them. */
const below = ['health', 'rules']

export async function describeCommand(config: ClientConfig, get: Operation, args: string[]): Promise<number> {
  const resource = await readResource(config, get, args, usageOf(get.words.slice(0, -1).join(' ')))
  if (!resource) return exits.ok.code
  const { connection, path, body } = resource
  write(describeOne({ ...body, ...(await partsBelow(connection, path)) }))
  const waiting = refsIn(body)
  const seen = new Set([path])
  for (let next = waiting.shift(); next && seen.size <= maxRelated; next = waiting.shift()) {
    const related = pathOf(next.ref)
    if (related === undefined || seen.has(related)) continue
    seen.add(related)
    write(`\n${styled('bold', `${related.slice(1)} (${next.field})`)}`)
    try {
      const { text } = await call(connection, { method: 'GET', path: related })
      const found = JSON.parse(text) as Json
      waiting.push(...refsIn(found).map((each) => ({ ...each, field: `${next?.field}.${each.field}` })))
      write(indented(describeOne({ ...found, ...(await partsBelow(connection, related)) })))
    } catch (error) {
      // A resource that the key may not read, or that was just deleted, must not hide the others.
      if (!(error instanceof Failure) || !['notAllowed', 'notFound'].includes(error.exit)) throw error
      write(`  ${error.message}`)
    }
  }
  return exits.ok.code
}

const indented = (text: string): string => text.replaceAll(/^(?=.)/gm, '  ')

async function partsBelow(connection: Connection, path: string): Promise<Json> {
  const found = below.filter((part) => readable(`${path}/${part}`) !== undefined)
  const parts = await Promise.all(
    found.map(async (part) => {
      const { text } = await call(connection, { method: 'GET', path: `${path}/${part}`, accept: 'application/json' })
      const { uri: _, ...rest } = JSON.parse(text) as Json
      return [part, part in rest ? rest[part] : rest] as const
    }),
  )
  return Object.fromEntries(parts)
}

/** The API path at the end of a URL path; the rest before it belongs to the service's public URL. */
function readable(path: string): string | undefined {
  const matches = operations
    .filter(({ method, listField }) => method === 'GET' && !listField)
    .flatMap((operation) => new RegExp(`${operation.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).exec(path)?.[0] ?? [])
  return matches.sort((a, b) => b.length - a.length)[0]
}
const pathOf = ({ uri }: Ref): string | undefined => readable(URL.parse(uri)?.pathname ?? '')

function refsIn(value: unknown, field = ''): { field: string; ref: Ref }[] {
  if (value === null || typeof value !== 'object') return []
  if (Array.isArray(value)) return value.flatMap((each) => refsIn(each, field))
  return Object.entries(value).flatMap(([name, each]) => {
    const inside = field ? `${field}.${name}` : name
    const refs = [each].flat().filter(isRef)
    return refs.length ? refs.map((ref) => ({ field: inside, ref })) : refsIn(each, inside)
  })
}
