import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { toId, uuidOfHex } from '../../../kernel/ids.ts'
import type { RuleOutcome } from '../../reports/rule_hits.ts'
import { listenAt } from '../../requests/listen.ts'
import type { ProxySettings } from '../settings.ts'

/** Socket to which gatehouse.lua sends the counts of its threads. */
export const ruleCountSocket = ({ folder }: ProxySettings): string => join(folder, 'rules.sock')

export type RuleCount = { account: string; rule: string; outcome: RuleOutcome; times: number }

type Batch = { sender: string; number: number; lost: number; counts: RuleCount[] }

const outcomes: Record<string, RuleOutcome> = { a: 'allowed', r: 'refused', w: 'warned' }
const maxBytes = 1 << 20
const maxSenders = 1_000

/**
 * Parses a batch of one thread: `<sender> <number>`, and the number of lost hits if there are any; then for each account
 * `a<account>` followed by `<rule><outcome> <times>` lines; then `end`. Ids are in hexadecimal. Undefined if the text
 * has any other form.
 */
export function readBatch(text: string): Batch | undefined {
  const [first = '', ...lines] = text.split('\n')
  const [, sender, number, lost = 0] = /^(\S{1,100}) (\d{1,15})(?: (\d{1,15}))?$/.exec(first) ?? []
  if (!sender || lines.at(-2) !== 'end' || lines.at(-1) !== '') return undefined
  const counts: RuleCount[] = []
  let account: string | undefined
  for (const line of lines.slice(0, -2)) {
    const [, rule, letter = '', times] = /^([0-9a-f]{32})([arw]) (\d{1,15})$/.exec(line) ?? []
    const outcome = outcomes[letter]
    if (/^a[0-9a-f]{32}$/.test(line)) account = toId('ac', uuidOfHex(line.slice(1)))
    else if (account && rule && outcome)
      counts.push({ account, rule: toId('ipr', uuidOfHex(rule)), outcome, times: Number(times) })
    else return undefined
  }
  return { sender, number: Number(number), lost: Number(lost), counts }
}

/**
 * Threads keep their counts until the agent answers `kept`, so nothing is lost while no agent runs. A batch that a
 * thread sends again, because it missed the answer, is not counted twice.
 */
export async function receiveRuleCounts(
  settings: ProxySettings,
  onCount: (count: RuleCount) => void,
  onLost: (hits: number) => void = () => {},
) {
  const kept = new Map<string, number>()

  function take(text: string): string {
    const batch = readBatch(text)
    if (!batch) return 'unknown\n'
    const { sender, number, lost, counts } = batch
    if (number > (kept.get(sender) ?? 0)) {
      for (const count of counts) onCount(count)
      onLost(lost)
    }
    kept.delete(sender)
    kept.set(sender, number)
    if (kept.size > maxSenders) kept.delete(kept.keys().next().value as string)
    return `kept ${number}\n`
  }

  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let text = ''
    socket.setTimeout(5_000, () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      if (text.length > maxBytes) socket.destroy()
      else if (text.endsWith('\nend\n')) socket.end(take(text))
    })
  })
  await listenAt(server, ruleCountSocket(settings))
  return {
    /** Counts that arrive later stay in HAProxy for the next agent. */
    async close(): Promise<void> {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroySoon()
      await closed
    },
  }
}
