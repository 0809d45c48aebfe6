import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { Scope } from './control_plane.ts'

/** What a DNS server says of a name: its records, those of another name, nothing at all, or that it is broken. */
export type DnsAnswer = readonly string[] | { cname: string } | 'silent' | 'broken'
export type DnsServer = {
  /** As GATEHOUSE_EDGE_DNS_SERVERS wants it. */
  address: string
  /** Every name that was asked for, in order. */
  asked: string[]
  /** Names without an answer do not exist. */
  answers: (name: string) => DnsAnswer | undefined
}

/** A DNS server on its own UDP port, for A and AAAA, and for TXT if it is asked for that. Like a recursive one, it follows names. */
export async function startDnsServer(scope: Scope, answers: DnsServer['answers']): Promise<DnsServer> {
  const socket = createSocket('udp4')
  const server: DnsServer = { address: '', asked: [], answers }
  socket.on('message', (query, { port, address }) => {
    const { name, type, end } = questionIn(query)
    server.asked.push(name)
    const said = server.answers(name)
    const alias = typeof said === 'object' && 'cname' in said ? said.cname : undefined
    const answer = alias === undefined ? said : server.answers(alias)
    if (answer === 'silent') return
    const wanted = Array.isArray(answer)
      ? (answer as string[]).filter((each) => type === txt || each.includes(':') === (type === 28))
      : []
    const code = answer === 'broken' ? 2 : answer === undefined ? 3 : 0
    const head = Buffer.from(query.subarray(0, 12))
    head.writeUInt16BE(0x8180 | code, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(wanted.length + (alias ? 1 : 0), 6)
    head.writeUInt32BE(0, 8)
    socket.send(
      Buffer.concat([
        head,
        query.subarray(12, end),
        ...(alias ? [recordOf(pointer, 5, nameBytes(alias))] : []),
        ...wanted.map((each) => recordOf(alias ? nameBytes(alias) : pointer, type, dataOf(each, type))),
      ]),
      port,
      address,
    )
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  server.address = `127.0.0.1:${socket.address().port}`
  scope.after(async () => void socket.close())
  return server
}

const txt = 16

function questionIn(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 }
}

/** Points back at the name in the question. */
const pointer = Buffer.from([0xc0, 0x0c])
const nameBytes = (name: string) =>
  Buffer.concat([
    ...name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
    Buffer.from([0]),
  ])

/** Lives for no second. */
function recordOf(name: Buffer, type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(10)
  head.writeUInt16BE(type, 0)
  head.writeUInt16BE(1, 2)
  head.writeUInt16BE(data.length, 8)
  return Buffer.concat([name, head, data])
}

function dataOf(text: string, type: number): Buffer {
  if (type === txt) return Buffer.from([text.length, ...Buffer.from(text)])
  return type === 1 ? Buffer.from(text.split('.').map(Number)) : ipv6Bytes(text)
}

function ipv6Bytes(address: string): Buffer {
  const [left = '', right] = address.split('::')
  const groups = (text: string | undefined) => (text ? text.split(':') : [])
  const zeros = Array(8 - groups(left).length - groups(right).length).fill('0')
  const all = right === undefined ? groups(left) : [...groups(left), ...zeros, ...groups(right)]
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex')
}
