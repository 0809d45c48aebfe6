import { rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'

export type ProxyEvent = {
  readonly outcome: 'refused' | 'warned'
  /** The account's restriction that decided; null when it was the edge's or route's own policies. */
  readonly restriction: string | null
  readonly target: string
  readonly source: string
}

/** Written by `report` in gatehouse.lua, which ends in a space so that HAProxy's full stop stands alone. */
const line =
  /^gatehouse (refused|warned) (-|ipx_[0-9a-z]+) ((?:edgtcp|edghtsrt)_[0-9a-z]+) ([0-9A-F]{8}|[0-9A-F]{32}) \.?$/

/** Undefined for what HAProxy has to say about itself. */
export function parseEvent(text: string): ProxyEvent | undefined {
  const [, outcome, restriction, target, hex] = line.exec(text) ?? []
  if (!outcome || !target || !hex) return undefined
  const groups = hex.match(hex.length === 8 ? /../g : /.{4}/g) ?? []
  const written = hex.length === 8 ? groups.map((group) => Number.parseInt(group, 16)).join('.') : groups.join(':')
  const address = parseAddress(written)
  if (!address) return undefined
  return {
    outcome: outcome as ProxyEvent['outcome'],
    restriction: restriction === '-' ? null : (restriction ?? null),
    target,
    source: formatAddress(address),
  }
}

export type EventReceiver = { close: () => Promise<void> }

/**
 * HAProxy connects to the socket and sends a line for each event: a stream, because Node has no datagram sockets of
 * that kind, and a path, because a port could be written to by anyone on the machine. While nobody listens, HAProxy
 * keeps the last 4 MB of them.
 */
export async function receiveEvents(path: string, onEvent: (event: ProxyEvent) => void): Promise<EventReceiver> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    createInterface({ input: socket }).on('line', (text) => {
      const event = parseEvent(text)
      if (event) onEvent(event)
    })
  })
  // Left behind by an agent that was killed; whether one still runs is for whoever starts agents to know.
  await rm(path, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
  return {
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
