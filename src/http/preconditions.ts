import { hash } from 'node:crypto'
import { Refusal } from '../kernel/errors.ts'

const digest = (value: unknown, characters: number): string =>
  hash('sha256', JSON.stringify(value), 'base64url').slice(0, characters)

/**
 * A strong tag of what a GET shows: the same fields, the same tag, on every process. With `shown`, what changes by itself has a
 * part of its own after a dot: a client that asks whether it has the current state must get the new one, and a client that
 * changes the resource must not be refused because of it.
 */
export const etagOf = (stable: unknown, shown?: unknown): string =>
  shown === undefined ? `"${digest(stable, 27)}"` : `"${digest(stable, 27)}.${digest(shown, 12)}"`

/** The part of a tag that only a change alters. */
const stablePart = (tag: string): string => tag.replace(/\.[\w-]*"$/, '"')

/** Whether a client that sent `If-None-Match` has it already. Proxies that compress mark a tag as weak (`W/`). */
export const isUnchanged = (ifNoneMatch: string | undefined, etag: string | undefined): boolean =>
  ifNoneMatch !== undefined &&
  etag !== undefined &&
  ifNoneMatch.split(',').some((tag) => [etag, '*'].includes(tag.trim().replace(/^W\//, '')))

/** `If-Match` is for those who ask for it. Call it with the thing locked, so that the answer still holds at the commit. */
export function checkIfMatch(ifMatch: string | undefined, current: unknown | undefined): void {
  if (ifMatch === undefined) return
  const wanted = ifMatch.split(',').map((tag) => stablePart(tag.trim()))
  if (current !== undefined && (wanted.includes('*') || wanted.includes(etagOf(current)))) return
  throw new Refusal(
    'ERR_PRECONDITION_FAILED',
    'The resource has changed since you read it. Fetch it again and retry with the current ETag.',
  )
}
