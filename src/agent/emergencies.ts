import { join } from 'node:path'
import { type Order, openOrder } from '../distribution/emergency.ts'
import type { TrustedKeys } from '../distribution/signature.ts'
import type { EmergencyInForce } from '../kernel/edge/edge_nodes.ts'
import { compareAddresses, parseAddress } from '../kernel/ip/address.ts'
import { type Cidr, containsCidr, formatCidr, parseCidr, rangesAround } from '../kernel/ip/cidr.ts'
import type { Log } from '../kernel/log.ts'
import type { Timing } from '../kernel/timing.ts'
import { type Files, writeAtomically } from './disk/files.ts'
import type { EdgeProxy } from './haproxy/apply.ts'
import { difference, type Entry } from './haproxy/maps/entries.ts'
import { createTurns } from './haproxy/process/turns.ts'

type Parts = {
  files: Files
  /** The agent's own folder. */
  folder: string
  keys: TrustedKeys
  cell: string
  timing: Pick<Timing, 'now' | 'every'>
  log: Log
  proxy: Pick<EdgeProxy, 'apply' | 'closeSessionsFrom'>
  onChange: () => void
}

/** Keyed by file name. An order and the order that ends it have the same id. */
type Orders = Map<string, { text: string; order: Order; kept: boolean }>
export type Taken = { order: Order; kept: boolean; fault?: undefined } | { fault: string }

const lookEveryMs = 1_000
/** Every order is a file that the agent reads at each start. */
const maxOrders = 100

/**
 * Emergency orders of the operator, which reach the node without control plane, database and NATS. They are stored
 * verbatim, so that a restart verifies their signature again.
 */
export async function openEmergencies(parts: Parts) {
  const { keys, cell, timing, log, proxy, onChange } = parts
  const turns = createTurns()
  const orders: Orders = new Map()
  const reader = createReader(parts, orders)
  await reader.read()
  const inForce = () => inForceOf(orders, timing.now())
  let enforced = entriesOf(inForce())
  let enforcedIds = idsOf(inForce())
  /** Ranges whose connections still have to be closed. */
  let unclosed = new Set<string>()

  /** What fails here is retried a second later. */
  async function enforce(): Promise<void> {
    const current = inForce()
    if (idsOf(current) !== enforcedIds) {
      const wanted = entriesOf(current)
      const change = difference(enforced, wanted)
      await proxy.apply(change)
      enforced = wanted
      enforcedIds = idsOf(current)
      unclosed = new Set([...unclosed, ...change.set.map(({ key }) => key)])
      log.warn({ orders: enforcedIds, ranges: wanted.length }, 'the ranges that emergency orders refuse have changed')
      onChange()
    }
    if (unclosed.size === 0) return
    await proxy.closeSessionsFrom((source) => isAmong(unclosed, source))
    unclosed = new Set()
  }

  const isDue = () => orders.size > 0 || enforced.length > 0 || unclosed.size > 0 || reader.unread().length > 0
  const stop = timing.every(lookEveryMs, () => {
    if (isDue())
      void turns.next(async () => {
        if (reader.unread().length > 0) await reader.read()
        await enforce().catch((err) => log.error({ err }, 'cannot enforce an emergency order; retrying in a second'))
        await keepOrders(orders, parts).catch(() => {})
      })
  })

  return {
    /** Initial entries for HAProxy. */
    entries: (): readonly Entry[] => enforced,

    /** Resolves once the order is in force, even if the disk cannot store it. */
    take: (text: string): Promise<Taken> =>
      turns.next(async () => {
        const { order, fault } = openOrder(text, keys, { cell, now: timing.now() })
        if (!order) return { fault }
        const name = fileOf(order)
        const isNew = !orders.has(name)
        if (isNew && orders.size >= maxOrders) return { fault: `cannot be kept beside ${maxOrders} others` }
        if (isNew) orders.set(name, { text, order, kept: false })
        await enforce()
        await keepOrders(orders, parts).catch((err) =>
          log.error({ err }, 'cannot keep an emergency order; it would not survive a restart'),
        )
        return { order, kept: orders.get(name)?.kept === true }
      }),

    state: (): EmergencyInForce[] =>
      inForce()
        .filter(({ id }) => enforcedIds.includes(id))
        .map(({ id, refuse, reason, expiresAt }) => ({ id, ranges: refuse.length, reason, expiresAt })),
    /** Files that could not be read and may hold orders that are not in force. */
    unread: (): readonly string[] => reader.unread(),

    async stop(): Promise<void> {
      stop()
      await turns.ended()
    },
  }
}
export type Emergencies = Awaited<ReturnType<typeof openEmergencies>>

/** Reads the stored orders that still verify. An unreadable file does not prevent the node from starting. */
function createReader({ files, folder, keys, cell, timing, log }: Parts, orders: Orders) {
  const refused = new Set<string>()
  let unread: string[] = []

  async function take(name: string): Promise<void> {
    const text = (await files.read(join(folder, name)))?.toString() ?? ''
    const { order, fault, hasEnded } = openOrder(text, keys, { cell, now: timing.now() })
    if (order && fileOf(order) === name) {
      orders.set(name, { text, order, kept: true })
      return
    }
    refused.add(name)
    if (hasEnded) await files.remove(join(folder, name)).catch(() => {})
    else log.warn({ file: name, fault }, 'an emergency order is not followed')
  }

  return {
    unread: (): readonly string[] => unread,
    async read(): Promise<void> {
      const failed: string[] = []
      const cannotRead = (file: string) => (err: Error) => {
        failed.push(file)
        if (!unread.includes(file)) log.error({ err, file }, 'cannot read emergency orders; trying again every second')
      }
      await files.makeFolder(folder, 0o700).catch(cannotRead(folder))
      const names = await files.list(folder).catch(cannotRead(folder))
      for (const name of names ?? [])
        if (!orders.has(name) && !refused.has(name)) await take(name).catch(cannotRead(join(folder, name)))
      unread = [...new Set(failed)]
    },
  }
}

/** Stores new orders and removes those that have ended. */
async function keepOrders(orders: Orders, { files, folder, timing }: Parts): Promise<void> {
  for (const [name, held] of orders) {
    if (Date.parse(held.order.expiresAt) <= timing.now()) {
      await files.remove(join(folder, name))
      orders.delete(name)
    } else if (!held.kept) {
      await writeAtomically(files, join(folder, name), [held.text], 0o600)
      held.kept = true
    }
  }
}

function inForceOf(orders: Orders, now: number): Order[] {
  const all = [...orders.values()].map(({ order }) => order)
  return all.filter(
    ({ id, refuse, expiresAt }) => refuse.length > 0 && Date.parse(expiresAt) > now && !orders.has(`${id}.lift`),
  )
}

const fileOf = ({ id, refuse }: Order): string => (refuse.length === 0 ? `${id}.lift` : id)

const idsOf = (orders: readonly Order[]): string =>
  orders
    .map(({ id }) => id)
    .sort()
    .join(' ')

/**
 * Keeps only the widest ranges: the agent reads an entry back by looking up a single address, for which HAProxy would
 * return a narrower range.
 */
function entriesOf(orders: readonly Order[]): Entry[] {
  const ranges = orders
    .flatMap(({ refuse }) => refuse.map((text) => parseCidr(text).cidr))
    .filter((range) => range !== undefined)
    .sort((a, b) => compareAddresses(a.network, b.network) || a.prefixLength - b.prefixLength)
  const widest: Cidr[] = []
  for (const range of ranges) {
    const last = widest.at(-1)
    if (!last || !containsCidr(last, range)) widest.push(range)
  }
  return widest.map((range) => ({ map: 'emergency', key: formatCidr(range), value: 'refused' }))
}

function isAmong(ranges: ReadonlySet<string>, source: string): boolean {
  const address = parseAddress(source)
  return address !== undefined && rangesAround(address).some((range) => ranges.has(formatCidr(range)))
}
