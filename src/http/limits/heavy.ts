import type { Socket } from 'node:net'
import { Refusal } from '../../kernel/errors.ts'
import { Crowded, createGate, type Gate } from '../../kernel/flow/gate.ts'
import { maxJsonBytes } from '../input/body.ts'

/**
 * Operations that can take seconds of the process or the database. A route says which kind it is (`heavy`), and that is
 * all it takes to be limited. One account gets one rule set at a time, because its replacements wait for each other in the
 * database anyway, and would hold a connection while they do.
 */
const kinds = {
  /** Reads, compares or replaces every rule of a policy. */
  rule_set: { perAccount: 1 },
  /** Adds up what happened over hours or days. */
  report: { perAccount: 2 },
} as const
export type HeavyKind = keyof typeof kinds

const waitMs = 20_000
const maxWaitingPerAccount = 32
/** Two of the largest rule sets, or some four of 100,000 usual rules. */
const maxHeldBytes = 128 * 1024 * 1024
/** Bodies of a usual size are not counted: large ones that fill the memory must not keep usual requests out. */
const uncountedBytes = maxJsonBytes
export const retryAfterSeconds = 5

/** A heavy operation's place: taken before its body is read, and given back when it is over. */
export type Turn = {
  /** Waits until the process has room for the work itself. A slow sender does not take that room from others. */
  readonly begin: () => Promise<void>
  /** Counts what is held of a body. Throws when all accounts together hold too much. */
  readonly hold: (bytes: number) => void
  readonly end: () => void
}
export type HeavyOperations = {
  readonly enter: (kind: HeavyKind, accountId: string, socket: Socket) => Promise<Turn>
  readonly counts: () => Record<HeavyKind, { running: number; waiting: number }>
}

/** `running`: how many of each kind this process works on at once. */
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
