import { hash } from 'node:crypto'
import { Refusal } from '../kernel/errors.ts'

const digest = (value: unknown, characters: number): string =>
  hash('sha256', JSON.stringify(value), 'base64url').slice(0, characters)

/**
 * A strong tag over the fields of a GET, equal on every process. Fields that change by themselves (`shown`) get a
 * separate part after a dot: they must invalidate If-None-Match, but must not fail If-Match.
 */
export const etagOf = (stable: unknown, shown?: unknown): string =>
  shown === undefined ? `"${digest(stable, 27)}"` : `"${digest(stable, 27)}.${digest(shown, 12)}"`

/** The part of a tag that only a change of the resource alters. */
const stablePart = (tag: string): string => tag.replace(/\.[\w-]*"$/, '"')

/** Evaluates `If-None-Match`. Compressing proxies mark a tag as weak (`W/`). */
export const isUnchanged = (ifNoneMatch: string | undefined, etag: string | undefined): boolean =>
  ifNoneMatch !== undefined &&
  etag !== undefined &&
  ifNoneMatch.split(',').some((tag) => [etag, '*'].includes(tag.trim().replace(/^W\//, '')))

/** `If-Match` is optional. Lock the resource before the call, so that the result still holds at commit. */
export function checkIfMatch(ifMatch: string | undefined, current: unknown | undefined): void {
  if (ifMatch === undefined) return
  const wanted = ifMatch.split(',').map((tag) => stablePart(tag.trim()))
  if (current !== undefined && (wanted.includes('*') || wanted.includes(etagOf(current)))) return
  throw new Refusal(
    'ERR_PRECONDITION_FAILED',
    'The resource has changed since you read it. Fetch it again and retry with the current ETag.',
  )
}
