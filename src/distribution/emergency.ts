import { rfc3339 } from '../kernel/clock.ts'
import { cellNamePattern } from '../kernel/edge/cells.ts'
import { formatCidr, parseCidr } from '../kernel/ip/cidr.ts'
import { plainText } from '../kernel/text.ts'
import { parseRfc3339 } from '../kernel/time.ts'
import { open, type Signer, seal, type TrustedKeys } from './signature.ts'

/**
 * An operator's direct order to edge nodes, for use while the control plane, the database or NATS is down. It is signed
 * with a key that no server has; nodes know the public half.
 */
export type Order = {
  readonly id: string
  /** Cells whose nodes may follow it; all cells if empty. */
  readonly cells: readonly string[]
  /** Canonical ranges. Empty: the order with this id ends. */
  readonly refuse: readonly string[]
  readonly reason: string
  readonly issuedAt: string
  readonly expiresAt: string
}

const secondsOfDay = 24 * 60 * 60
/** Limited, because a node without a control plane cannot learn that the emergency is over. */
export const longestOrderSeconds = 7 * secondsOfDay
export const maxOrderRanges = 10_000
export const maxOrderBytes = 1 << 20
const maxReasonCharacters = 200
const idPattern = /^[0-9a-f]{12}$/
export const isOrderId = (text: string): boolean => idPattern.test(text)

type NewOrder = Pick<Order, 'id' | 'cells' | 'refuse' | 'reason'> & { lifeSeconds: number }

/** Throws a message for the operator if a range is invalid. */
export function newOrder({ id, cells, refuse, reason, lifeSeconds }: NewOrder, now: number): Order {
  const ranges = refuse.map((text) => {
    const { cidr, fault } = parseCidr(text)
    if (!cidr) throw new Error(`${text} ${fault}`)
    return formatCidr(cidr)
  })
  if (ranges.length > maxOrderRanges) throw new Error(`an order has at most ${maxOrderRanges} ranges`)
  return {
    id,
    cells,
    refuse: [...new Set(ranges)],
    reason: plainText(reason, maxReasonCharacters),
    issuedAt: rfc3339(now),
    expiresAt: rfc3339(now + lifeSeconds * 1_000),
  }
}

/** Lives as long as an order can, so that the lifted order cannot be sent again. */
export const liftOf = (id: string, cells: readonly string[], now: number): Order =>
  newOrder({ id, cells, refuse: [], reason: '', lifeSeconds: longestOrderSeconds }, now)

/** The field names the kind of message, because the key may sign other kinds of orders one day. */
export const sealOrder = (order: Order, signer: Signer): string => seal({ emergency: order }, signer)

/** The signed order, or why a node of this cell does not follow it, as the end of a sentence. */
export function openOrder(
  text: string,
  keys: TrustedKeys,
  { cell, now }: { cell: string; now: number },
): { order: Order; fault?: undefined; hasEnded?: undefined } | { order?: undefined; fault: string; hasEnded?: true } {
  const opened = open(text, keys)
  if ('fault' in opened) return { fault: opened.fault }
  const order = readOrder(opened.payload)
  if (!order) return { fault: 'is not an emergency order that this version understands' }
  if (order.cells.length > 0 && !order.cells.includes(cell))
    return { fault: `is for the cells ${order.cells.join(', ')}, and this node belongs to ${cell}` }
  const left = Date.parse(order.expiresAt) - now
  if (left <= 0) return { fault: `has ended at ${order.expiresAt}, by the clock of this node`, hasEnded: true }
  if (left > (longestOrderSeconds + 60 * 60) * 1_000)
    return { fault: `ends at ${order.expiresAt}, which is too far ahead. Check the clock of this node` }
  return { order }
}

function readOrder(payload: unknown): Order | undefined {
  const order = (payload as { emergency?: Partial<Order> } | null)?.emergency
  if (typeof order !== 'object' || order === null) return undefined
  const { id, cells, refuse, reason, issuedAt, expiresAt } = order
  const isFine =
    typeof id === 'string' &&
    isOrderId(id) &&
    isListOf(cells, (each) => new RegExp(cellNamePattern).test(each)) &&
    isListOf(refuse, isCanonicalRange) &&
    refuse.length <= maxOrderRanges &&
    typeof reason === 'string' &&
    reason.length <= maxReasonCharacters &&
    isMoment(issuedAt) &&
    isMoment(expiresAt)
  return isFine ? { id, cells, refuse, reason, issuedAt, expiresAt } : undefined
}

const isMoment = (value: unknown): value is string => typeof value === 'string' && parseRfc3339(value) !== undefined
const isListOf = (value: unknown, is: (each: string) => boolean): value is string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string' && is(each))

/** Strict, because the range becomes a line of a map file and part of a command. */
function isCanonicalRange(text: string): boolean {
  const { cidr } = parseCidr(text)
  return cidr !== undefined && formatCidr(cidr) === text
}
