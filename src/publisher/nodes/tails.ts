import { randomUUID } from 'node:crypto'
import type { NatsConnection } from '@nats-io/transport-node'
import { allTails, channelsOf, senderOf } from '../../distribution/channels.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { matcherOf, readTail, renewWatchesMs, type Watch, type Watches } from '../../distribution/watches.ts'

export type Watcher = {
  onRequest: (request: EdgeRequest) => void
  /** A node has seen more requests than it sends. */
  onDropped: (count: number) => void
}
type Watched = Watcher & { watch: Watch; cells: readonly string[]; matches: (request: EdgeRequest) => boolean }

/**
 * Live requests for viewers in this process. Sends each watch to the nodes of its cells, and passes on the requests that
 * they see. Nothing is stored, and lost messages are not repeated.
 */
export function createTails() {
  const process = randomUUID()
  const watched = new Map<string, Watched>()
  /** Cells that have, or had, a watch. */
  const told = new Set<string>()
  let nats: NatsConnection | undefined
  let timer: NodeJS.Timeout | undefined

  function announce(): void {
    if (!nats || nats.isClosed()) return
    for (const { cells } of watched.values()) for (const cell of cells) told.add(cell)
    for (const cell of told) {
      const ofCell = [...watched.values()].filter(({ cells }) => cells.includes(cell))
      const watches: Watches = { process, watches: ofCell.map(({ watch }) => watch) }
      nats.publish(channelsOf(cell).watches, JSON.stringify(watches))
    }
  }
  function receive(text: string, subject: string): void {
    const tail = readTail(text, subject)
    if (!tail) return
    const { cell } = senderOf(subject)
    for (const { watches, request } of tail.lines)
      for (const id of watches) {
        const found = watched.get(id)
        // The node decides what to send, but not who receives it, because it may be stolen.
        const isOwn = found?.cells.includes(cell) && request.account === found.watch.account
        if (found && isOwn && found.matches(request)) found.onRequest(request)
      }
    for (const { watch, count } of tail.dropped) {
      const found = watched.get(watch)
      if (found?.cells.includes(cell)) found.onDropped(count)
    }
  }

  return {
    /** Returns the function that ends the watch. `cells` are those of the account. */
    watch({ cells, ...wanted }: Omit<Watch, 'id'> & { cells: readonly string[] }, watcher: Watcher): () => void {
      const watch = { ...wanted, id: randomUUID() }
      watched.set(watch.id, { ...watcher, watch, cells, matches: matcherOf(watch) })
      timer ??= setInterval(announce, renewWatchesMs)
      announce()
      return () => {
        if (!watched.delete(watch.id)) return
        if (watched.size === 0) {
          clearInterval(timer)
          timer = undefined
        }
        announce()
      }
    },
    listen(connection: NatsConnection): void {
      nats = connection
      for (const subject of allTails)
        connection.subscribe(subject, {
          callback: (error, message) => {
            if (!error && watched.size > 0) receive(message.string(), message.subject)
          },
        })
      announce()
    },
  }
}
export type Tails = ReturnType<typeof createTails>
