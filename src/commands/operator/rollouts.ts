import { parseArgs } from 'node:util'
import type { Config } from '../../config/config.ts'
import type { DbPool } from '../../db/pool.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { toId } from '../../kernel/ids.ts'
import {
  haltRollout,
  latestRollouts,
  RolloutFault,
  resumeRollout,
  type StoredRollout,
} from '../../operations/rollouts.ts'
import { withDatabase } from '../database.ts'

const shown = 100

/** Shows and controls changes on their way through the waves of cells. Prints a JSON line for each. */
export const rollouts = (config: Config, verb: string, args: string[]): Promise<number> =>
  withDatabase(config, async (db) => {
    try {
      return await perform(db, verb, args)
    } catch (error) {
      if (!(error instanceof RolloutFault)) throw error
      console.error(`gatehouse: ${error.message}`)
      return 1
    }
  })

async function perform(db: DbPool, verb: string, args: string[]): Promise<number> {
  switch (verb) {
    case 'list':
      parseArgs({ args, options: {} })
      for (const rollout of (await latestRollouts(db, shown)).reverse()) console.log(JSON.stringify(describe(rollout)))
      return 0
    case 'halt': {
      const { id, reason } = decision(verb, args)
      await haltRollout(db, id, { reason })
      await note(db, `${id} halted: ${reason}`)
      console.log(`Rollout ${id} is halted: nodes that had its changes get back what they had before`)
      return 0
    }
    case 'resume': {
      const { id, reason } = decision(verb, args)
      await resumeRollout(db, id, { reason })
      await note(db, `${id} watched again: ${reason}`)
      console.log(`Nodes of the first wave get the changes of rollout ${id} again, and are watched`)
      return 0
    }
    case 'release': {
      const { id, reason } = decision(verb, args)
      await resumeRollout(db, id, { reason, isUrgent: true, isForced: true })
      await note(db, `${id} to be released without a watch: ${reason}`)
      console.log(`Rollout ${id} is released to all waves as soon as the first has it`)
      return 0
    }
    default:
      console.error("gatehouse: unknown command; expected 'rollouts' list, halt, resume or release")
      return 2
  }
}

const note = (db: DbPool, detail: string): Promise<void> =>
  recordFleetEvent(db, { operation: 'rollout_decided', detail })

function decision(verb: string, args: string[]): { id: number; reason: string } {
  const { values, positionals } = parseArgs({ args, options: { reason: { type: 'string' } }, allowPositionals: true })
  const [id = '', ...more] = positionals
  if (!/^\d{1,15}$/.test(id) || more.length > 0 || !values.reason)
    throw new ConfigError(`usage: gatehouse rollouts ${verb} ID --reason TEXT`)
  return { id: Number(id), reason: values.reason.slice(0, 255) }
}

const describe = (rollout: StoredRollout) => ({
  id: rollout.id,
  // The id that the account sees.
  public_id: toId('ro', rollout.public_id),
  cell: rollout.cell,
  account_id: toId('ac', rollout.account_id),
  account: rollout.account,
  state: rollout.state,
  // The last wave that has the changes. Null: none.
  wave: rollout.reached < 0 ? null : rollout.reached,
  waves: rollout.waves,
  waits: !rollout.is_first,
  generation: rollout.open_until,
  records: rollout.keys,
  reason: rollout.reason,
  evidence: rollout.evidence,
  created_at: rollout.created_at,
  applied_at: rollout.applied_at,
  ended_at: rollout.ended_at,
})
