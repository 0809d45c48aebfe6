import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import type { UpstreamFailure } from '../upstreams/failures.ts'
import { parseFailure } from './failures.ts'
import { changedNative } from './native/health.ts'

export type ProxyEvent = {
  readonly outcome: 'refused' | 'warned'
  /** The account's restriction that decided; null when it was the edge's or route's own policies. */
  readonly restriction: string | null
  readonly target: string
  readonly source: string
}

/** Written by `report` in gatehouse.lua, which ends in a space so that HAProxy's full stop stands alone. */
const line =
  /^gatehouse (refused|warned) (-|ipx_[0-9a-z]+) ((?:edgtcp|edghtsrt)_[0-9a-z]+) ([0-9A-F]{8}|[0-9A-F]{32}) ?\.?$/

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
 * Over UDP on the loopback: Node has no datagram sockets with a path, and HAProxy 2.6 takes a whole processor to try
 * again and again when a stream that it logs to has nobody at the other end (measured), which is just when the agent
 * is away and traffic must go on. What is sent while nobody listens is lost; decisions do not depend on it.
 */
export async function receiveEvents(
  port: number,
  onEvent: (event: ProxyEvent) => void,
  onFailure: (failure: UpstreamFailure) => void,
  onServerChange: (native: string) => void = () => {},
): Promise<EventReceiver> {
  const socket = createSocket({ type: 'udp4', recvBufferSize: 4 << 20 })
  socket.on('message', (bytes) => {
    const text = bytes.toString('latin1').trim()
    const event = parseEvent(text)
    if (event) return onEvent(event)
    const failure = parseFailure(text)
    if (failure) return onFailure(failure)
    const native = changedNative(text)
    if (native) onServerChange(native)
  })
  socket.bind(port, '127.0.0.1')
  await once(socket, 'listening')
  return {
    async close() {
      socket.close()
      await once(socket, 'close')
    },
  }
}
