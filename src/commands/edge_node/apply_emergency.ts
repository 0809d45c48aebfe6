import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Taken } from '../../agent/emergencies.ts'
import type { EdgeConfig } from '../../config/config.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { askNode } from './ask_node.ts'

type StatusListen = Pick<EdgeConfig, 'GATEHOUSE_EDGE_STATUS_LISTEN'>

const timeoutMs = 60_000

/** Gives an order to the node on this machine. Needs only the agent. */
export async function applyEmergency(args: string[], config: StatusListen): Promise<number> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true })
  const [file, ...more] = positionals
  if (!file || more.length > 0)
    throw new ConfigError('usage: gatehouse edge apply-emergency FILE (- for standard input)')
  const taken = (await askNode(config, '/emergency', {
    method: 'POST',
    body: read(file),
    timeoutMs,
    advice: "Start 'gatehouse edge' on this machine: it needs neither control plane nor NATS.",
  })) as Taken | undefined
  if (!taken) return 1
  if (taken.fault !== undefined) {
    console.error(`gatehouse: the order ${taken.fault}`)
    return 1
  }
  const { id, refuse, expiresAt } = taken.order
  console.log(
    refuse.length === 0 ? `order ${id} has ended` : `refusing ${refuse.join(', ')} until ${expiresAt} (order ${id})`,
  )
  if (taken.kept) return 0
  console.error(
    'gatehouse: the node could not write the order to its disk, and would forget it if it restarted. It keeps trying',
  )
  return 1
}

function read(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw new ConfigError((error as Error).message)
  }
}
