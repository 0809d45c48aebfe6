// Ports for servers that need to know their port before they start. A port that was free a moment ago may be taken by the
// time the server binds it, so a process leases a block of ports for as long as it lives.
import { createSocket } from 'node:dgram'
import { createServer } from 'node:net'

/** The first port of a block is its lease; the others are handed out. */
const blockSize = 50
/** Below the range of outgoing connections, which could take a port at any time. */
const leased = { first: 10_000, last: 19_999 }

let free: number[] = []

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1)
  return port
}

/** Consecutive ports, free for TCP and UDP, that no other caller on this machine will get. */
export async function freePorts(count: number): Promise<number[]> {
  if (count >= blockSize) throw new Error(`a block has ${blockSize - 1} ports, not ${count}`)
  if (free.length < count) free = await leaseBlock()
  return free.splice(0, count)
}

async function leaseBlock(): Promise<number[]> {
  const blocks = Math.floor((leased.last - leased.first + 1) / blockSize)
  for (let tried = 0; tried < blocks; tried++) {
    // Each process starts elsewhere, so that they rarely collide.
    const first = leased.first + ((process.pid * 7 + tried) % blocks) * blockSize
    const ports = Array.from({ length: blockSize - 1 }, (_, index) => first + 1 + index)
    if ((await hold(first)) && (await Promise.all(ports.map(isFree))).every(Boolean)) return ports
  }
  throw new Error(`no ${blockSize} free ports in a row between ${leased.first} and ${leased.last}`)
}

/** The system releases the lease when this process ends, in any way. */
const hold = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer().unref()
    server.once('error', () => resolve(false))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(true))
  })

/**
 * The first of a number of consecutive free ports, starting at a port. The port before them is their lease: they are
 * bound much later, and another caller in between gets others.
 */
export async function freePortsFrom(first: number, count: number): Promise<number> {
  const ports = Array.from({ length: count }, (_, index) => first + index)
  const areOurs = (await hold(first - 1)) && (await Promise.all(ports.map(isFree))).every(Boolean)
  return areOurs ? first : freePortsFrom(first + count + 1, count)
}

const isFree = async (port: number): Promise<boolean> =>
  (await Promise.all([isFreeForTcp(port), isFreeForUdp(port)])).every(Boolean)

const isFreeForTcp = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    // Checks every address: a listener on any of them would conflict.
    server.listen({ port, host: '0.0.0.0', exclusive: true }, () => server.close(() => resolve(true)))
  })

const isFreeForUdp = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = createSocket('udp4')
    socket.once('error', () => resolve(false))
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => socket.close(() => resolve(true)))
  })
