import { type Db, maybeOne, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { hashToken } from '../identity/token.ts'
import type { Uuid } from '../kernel/ids.ts'

/** Time limit for signing in at the provider. */
export const flowSeconds = 10 * 60

export type Flow = { nonce: string; code_verifier: string; return_to: string }
type Key = { accountId: Uuid; provider: string; state: string; browser: string }

export const insertFlow = (db: Db, { accountId, provider, state, browser }: Key, flow: Flow): Promise<void> =>
  run(
    db,
    sql`
    insert into sign_in_flows (account_id, state_hash, browser_hash, provider, nonce, code_verifier, return_to, expires_at)
    values (${accountId}, ${hashToken(state)}, ${hashToken(browser)}, ${provider}, ${flow.nonce}, ${flow.code_verifier},
      ${flow.return_to}, now() + make_interval(secs => ${flowSeconds}))`,
  )

/**
 * Deletes the flow, so that a second response finds none. Undefined: it belongs to another browser or provider, or has
 * expired.
 */
export const takeFlow = (db: Db, { accountId, provider, state, browser }: Key): Promise<Flow | undefined> =>
  maybeOne<Flow>(
    db,
    sql`
    delete from sign_in_flows
    where account_id = ${accountId} and state_hash = ${hashToken(state)} and browser_hash = ${hashToken(browser)}
      and provider = ${provider} and expires_at > now()
    returning nonce, code_verifier, return_to`,
  )
