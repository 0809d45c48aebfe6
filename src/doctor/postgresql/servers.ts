import type { Config } from '../../config/config.ts'
import { type DbPool, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { synchronousStandbys } from '../../http/readiness.ts'
import { nameOf, readDatabaseUrl } from '../../kernel/database_url.ts'
import { type Finding, failed, ok, warning } from '../finding.ts'

type Answer = { name: string; isStandby?: boolean; reason?: string }

/** Checks each server in the URL, and whether a failover would lose changes. */
export async function checkServers(
  { GATEHOUSE_DATABASE_URL: text }: Config,
  db: DbPool,
  open: (url: string) => DbPool,
): Promise<Finding[]> {
  const { servers, urls } = readDatabaseUrl(text)
  if (servers.length < 2) return []
  const answers = await Promise.all(servers.map((server, at) => ask(nameOf(server), open(urls[at] as string))))
  return [placesFinding(answers), await waitFinding(db)]
}

async function ask(name: string, db: DbPool): Promise<Answer> {
  try {
    const { isStandby } = await one<{ isStandby: boolean }>(db, sql`select pg_is_in_recovery() as "isStandby"`)
    return { name, isStandby }
  } catch (error) {
    const { message, code } = error as { message: string; code?: string }
    return { name, reason: message || code || 'it does not answer' }
  } finally {
    void db.end().catch(() => {})
  }
}

function placesFinding(answers: readonly Answer[]): Finding {
  const check = 'postgresql.servers'
  const what = answers
    .map(
      ({ name, isStandby, reason }) =>
        `${name} ${reason ? `does not answer: ${reason}` : isStandby ? 'is a standby' : 'accepts changes'}`,
    )
    .join(', ')
  if (answers.filter(({ isStandby }) => isStandby === false).length > 1)
    return failed(
      check,
      what,
      "Stop those that 'patronictl list' does not call Leader, at once: what they acknowledge is lost. docs/operate/high-availability.md",
    )
  return answers.some(({ reason }) => reason)
    ? warning(check, what, 'Start it: until then a failover has nowhere to go')
    : ok(check, what)
}

async function waitFinding(db: DbPool): Promise<Finding> {
  const check = 'postgresql.standby'
  const { names, present } = await synchronousStandbys(db)
  if (names && !present)
    return failed(
      check,
      `PostgreSQL waits for a standby that is away, so changes get no answer: ${names}`,
      "Start the standby. 'patronictl list' must show a Sync Standby",
    )
  return names
    ? ok(check, `a change is acknowledged when a standby has it too: ${names}`)
    : warning(
        check,
        'PostgreSQL waits for no standby, so a failover now can lose acknowledged changes',
        'Start the standby. If it runs, set synchronous_mode of Patroni, or synchronous_standby_names of PostgreSQL',
      )
}
