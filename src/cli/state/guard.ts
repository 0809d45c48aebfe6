import { isDeepStrictEqual } from 'node:util'
import { type Connection, call } from '../call.ts'
import { Failure } from '../exits.ts'
import { readRulesAt, toThing } from './account.ts'
import type { Json, Rule } from './kinds.ts'
import { ruleChanges, type Step } from './plan.ts'

/**
 * Prevents a run from overwriting changes that someone else has made since it read the account. It reads each resource
 * once more before changing it, and changes only that version.
 */
export function createGuard(connection: Connection) {
  /** Versions that this run has created of resources that it changes in several steps, by path. */
  const own = new Map<string, Json | readonly Rule[]>()
  return {
    /** The condition of a change, `If-Match`. Rule sets have no version and are only compared. */
    async headersFor({ thing, present, method }: Step, path: string): Promise<Record<string, string>> {
      if (!present) return {}
      if (method === 'PUT') {
        const expected = (own.get(path) as readonly Rule[] | undefined) ?? present.rules
        const { added, removed } = ruleChanges(await readRulesAt(connection, path), expected)
        if (added.length || removed.length) throw changedMeanwhile()
        return {}
      }
      const { text, headers } = await call(connection, { method: 'GET', path })
      const now = toThing(thing.kind, JSON.parse(text) as Json).fields
      if (!isDeepStrictEqual(now, own.get(path) ?? present.fields)) throw changedMeanwhile()
      const etag = headers.get('etag')
      return etag ? { 'if-match': etag } : {}
    },
    changed({ thing, method, body }: Step, path: string, text: string): void {
      if (method === 'PUT') own.set(path, (body?.rules ?? []) as Rule[])
      else if (method === 'PATCH') own.set(path, toThing(thing.kind, JSON.parse(text) as Json).fields)
    },
  }
}

export const lookAtDifference = "Look at the difference with 'gatehouse state diff' before you decide which is right."
const changedMeanwhile = () =>
  new Failure('refused', 'someone else has changed it since this run read it', [lookAtDifference])
