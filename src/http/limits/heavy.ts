import type { Socket } from 'node:net'
import { Refusal } from '../../kernel/errors.ts'
import { Crowded, createGate, type Gate } from '../../kernel/flow/gate.ts'
import { maxJsonBytes } from '../input/body.ts'

/**
 * Operations that can occupy the process or the database for seconds. A route opts in with `heavy`. An account may run
 * one rule set at a time: its replacements would wait for each other in the database anyway and hold connections
 * meanwhile.
 */
const kinds = {
  /** Reads, compares or replaces every rule of a policy. */
  rule_set: { perAccount: 1 },
  /** Aggregates hours or days of data. */
  report: { perAccount: 2 },
} as const
export type HeavyKind = keyof typeof kinds

const waitMs = 20_000
const maxWaitingPerAccount = 32
/** Enough for two of the largest rule sets, or about four of 100,000 typical rules. */
const maxHeldBytes = 128 * 1024 * 1024
/** Small bodies are not counted, so that large ones cannot crowd out ordinary requests. */
const uncountedBytes = maxJsonBytes
export const retryAfterSeconds = 5

/** A slot for a heavy operation: taken before its body is read, released when it ends. */
export type Turn = {
  /** Waits for capacity to do the work itself, which a slow upload does not occupy. */
  readonly begin: () => Promise<void>
  /** Counts buffered bytes. Throws if all accounts together buffer too much. */
  readonly hold: (bytes: number) => void
  readonly end: () => void
}
export type HeavyOperations = {
  readonly enter: (kind: HeavyKind, accountId: string, socket: Socket) => Promise<Turn>
  readonly counts: () => Record<HeavyKind, { running: number; waiting: number }>
}

/** `running`: concurrent operations of each kind in this process. */
export function createHeavyOperations({ running }: { running: number }): HeavyOperations {
  const names = Object.keys(kinds) as HeavyKind[]
  const gates = Object.fromEntries(
    names.map((kind) => [
      kind,
      {
        account: createGate({
          total: Number.POSITIVE_INFINITY,
          perOwner: kinds[kind].perAccount,
          maxWaitingPerOwner: maxWaitingPerAccount,
          waitMs,
        }),
        work: createGate({ total: running, perOwner: running, maxWaitingPerOwner: maxWaitingPerAccount, waitMs }),
      },
    ]),
  ) as Record<HeavyKind, { account: Gate; work: Gate }>
  let heldBytes = 0

  return {
    counts: () =>
      Object.fromEntries(
        names.map((kind) => {
          const { account, work } = gates[kind]
          const running = work.counts().running
          return [kind, { running, waiting: account.counts().waiting + account.counts().running - running }]
        }),
      ) as Record<HeavyKind, { running: number; waiting: number }>,
    async enter(kind, accountId, socket) {
      const gone = new AbortController()
      const onClose = () =>
        gone.abort(new Refusal('ERR_MALFORMED_REQUEST', 'The client disconnected while its request was waiting.'))
      socket.once('close', onClose)
      const ends: (() => void)[] = [() => socket.off('close', onClose)]
      const end = () => {
        for (const undo of ends.splice(0)) undo()
      }
      try {
        ends.push(await gates[kind].account.enter(accountId, gone.signal))
      } catch (error) {
        end()
        throw error
      }
      let uncounted = uncountedBytes
      return {
        end,
        async begin() {
          ends.push(await gates[kind].work.enter(accountId, gone.signal))
        },
        hold(bytes) {
          uncounted -= bytes
          if (uncounted >= 0) return
          const counted = Math.min(bytes, -uncounted)
          if (heldBytes + counted > maxHeldBytes) throw new Crowded('total')
          heldBytes += counted
          ends.push(() => {
            heldBytes -= counted
          })
        },
      }
    },
  }
}
