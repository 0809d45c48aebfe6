import { hash } from 'node:crypto'
import { Refusal } from '../kernel/errors.ts'

/** A strong tag of what a GET shows: the same fields, the same tag, on every process. */
export const etagOf = (shown: unknown): string => `"${hash('sha256', JSON.stringify(shown), 'base64url').slice(0, 27)}"`

/** Whether a client that sent `If-None-Match` has it already. Proxies that compress mark a tag as weak (`W/`). */
export const isUnchanged = (ifNoneMatch: string | undefined, etag: string | undefined): boolean =>
  ifNoneMatch !== undefined &&
  etag !== undefined &&
  ifNoneMatch.split(',').some((tag) => [etag, '*'].includes(tag.trim().replace(/^W\//, '')))

/** `If-Match` is for those who ask for it. Call it with the thing locked, so that the answer still holds at the commit. */
export function checkIfMatch(ifMatch: string | undefined, current: unknown | undefined): void {
  if (ifMatch === undefined) return
  const wanted = ifMatch.split(',').map((tag) => tag.trim())
  if (current !== undefined && (wanted.includes('*') || wanted.includes(etagOf(current)))) return
  throw new Refusal(
    'ERR_PRECONDITION_FAILED',
    'The resource has changed since you read it. Fetch it again and retry with the current ETag.',
  )
}
