import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { faultyFiles } from '../../../test/harness/faulty_files.ts'
import { poll } from '../../../test/harness/poll.ts'
import { type EdgeRequest, requestReasons } from '../../distribution/requests.ts'
import { newId, newUuid } from '../../kernel/ids.ts'
import type { RequestLine } from '../requests/feed.ts'
import { createAccessLog } from './access_log.ts'
import { createLineBuffer } from './buffer.ts'
import type { Sink } from './destination.ts'
import { accessLogFields, truncated } from './fields.ts'
import { fileSink } from './file.ts'
import { otlpSink } from './otlp.ts'
import { syslogOverTcp, syslogOverUdp } from './syslog.ts'

const account = newId('ac')
const requestOf = (changes: Partial<EdgeRequest> = {}): EdgeRequest => ({
  ...{ id: newUuid(), at: '2026-01-02T03:04:05.678Z', node: 'edge-1', account, edge: newId('edghts') },
  ...{
    route: newId('edghtsrt'),
    source: '192.0.2.77',
    protocol: 'h2',
    method: 'GET',
    host: 'a.example',
    path: '/x"\\',
  },
  ...{ status: 200, durationMs: 3, bytesIn: 10, bytesOut: 20, upstream: '[2001:db8::1]:443', outcome: 'allowed' },
  ...{ reason: null, restriction: null, policy: null, rule: null, generation: 7, trace: null },
  ...changes,
})
const line = (sequence: number) => ({ process: 1, sequence }) as RequestLine
const silent = () => {
  const said: string[] = []
  const say = (_fields: object, message: string) => void said.push(message)
  return { said, info: say, warn: say, error: say }
}
const whole = { sample: 1, isTruncated: false }

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'gatehouse-access-log-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  return path
}

test('a file has a line of JSON for each request, and is rotated by size and count', async (t) => {
  const home = await folder(t)
  const log = createAccessLog([fileSink(join(home, 'access.log'), { maxBytes: 5_000, files: 3 })], whole, silent())
  for (let count = 0; count < 40; count++) {
    log.note(requestOf(), line(count))
    await poll(() => log.metrics()['gatehouse_edge_access_log_lines_total{destination="file"}'] === count + 1)
  }
  await log.close()
  assert.deepEqual((await readdir(home)).sort(), ['access.log', 'access.log.1', 'access.log.2'])
  const texts = await Promise.all(['.2', '.1', ''].map((end) => readFile(join(home, `access.log${end}`), 'utf8')))
  for (const text of texts) assert.ok(text.length <= 5_000 && text.endsWith('\n'))
  const records = texts.flatMap((text) => text.trim().split('\n')).map((text) => JSON.parse(text))
  const sequences = records.map((each) => each['gatehouse.sequence'])
  assert.deepEqual(
    sequences,
    Array.from(sequences, (_, index) => 40 - sequences.length + index),
  )
  assert.deepEqual(
    [records[0].timestamp, records[0]['url.path'], records[0]['gatehouse.upstream.port'], 'trace_id' in records[0]],
    ['2026-01-02T03:04:05.678Z', '/x"\\', 443, false],
  )
  for (const name of Object.keys(records[0])) assert.ok(accessLogFields.some((field) => field.name === name))
})

test('on a full disk no line is torn or doubled, and all are written when there is space', async (t) => {
  const path = join(await folder(t), 'access.log')
  const failed: string[] = []
  const { files, failWhen, heal } = faultyFiles((name) => failed.push(name))
  const sink = fileSink(path, { maxBytes: 1_000_000, files: 2 }, files)
  await sink.write(['first'])
  failWhen(({ kind }) => kind === 'write')
  await assert.rejects(sink.write(['second', 'third']), /ENOSPC/)
  failWhen(({ kind }) => kind === 'open')
  await assert.rejects(sink.write(['second', 'third']), /ENOSPC/)
  heal()
  await sink.write(['second', 'third'])
  await sink.close()
  assert.deepEqual(failed, ['write access.log', 'open access.log'])
  assert.equal(await readFile(path, 'utf8'), 'first\nsecond\nthird\n')
})

test('sampling logs a part of the allowed requests, and all others', async () => {
  const lines: string[] = []
  const sink: Sink = { name: 'x', batch: 10_000, write: async (got) => void lines.push(...got), close: async () => {} }
  const log = createAccessLog([sink], { sample: 0.1, isTruncated: true }, silent())
  for (let count = 0; count < 2_000; count++) log.note(requestOf(), line(count))
  for (const outcome of ['refused', 'warned', 'limited', 'failed'] as const) log.note(requestOf({ outcome }), line(0))
  await log.close()
  assert.ok(lines.length > 120 && lines.length < 300, `${lines.length} lines`)
  assert.equal(lines.filter((text) => !text.includes('"allowed"')).length, 4)
  assert.ok(lines.every((text) => text.includes('"192.0.2.0"')))
})

test('addresses are truncated to /24 and /48', () => {
  assert.deepEqual(['192.0.2.77', '2001:db8:1:2:3:4:5:6', '2001:db8::1', '::1', 'fe80::1:2'].map(truncated), [
    '192.0.2.0',
    '2001:db8:1::',
    '2001:db8::',
    '::',
    'fe80::',
  ])
})

test('a destination that does not take lines costs lines, which are counted exactly, and never holds up requests', async () => {
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  let written = 0
  const sink: Sink = {
    ...{ name: 'slow', batch: 100, close: async () => {} },
    async write(got) {
      await gate
      written += got.length
    },
  }
  const log = silent()
  const access = createAccessLog([sink], whole, log)
  for (let count = 0; count < 30_000; count++) access.note(requestOf(), line(count))
  release()
  await access.close()
  const dropped = access.metrics()['gatehouse_edge_access_log_dropped_total{destination="slow"}'] ?? 0
  assert.ok(dropped > 0)
  assert.equal(written + dropped, 30_000)
  assert.deepEqual(log.said, [
    'access log lines: dropped, because there are more than can be taken',
    'access log lines: no longer dropped',
  ])
})

test('an account that floods the buffer leaves room for others', () => {
  const buffer = createLineBuffer(1_000)
  for (let count = 0; count < 10_000; count++) buffer.add('hostile', 'x')
  assert.equal(buffer.size(), 500)
  for (let count = 0; count < 250; count++) assert.ok(buffer.add('honest', 'x'))
  assert.equal(buffer.dropped(), 9_500)
  assert.equal(buffer.take(2_000).length, 750)
  assert.ok(buffer.add('hostile', 'x'))
})

test('syslog gets RFC 5424 over UDP and TCP, and what a broken connection took with it again', async (t) => {
  const datagrams: string[] = []
  const udp = createSocket('udp4').on('message', (bytes) => datagrams.push(String(bytes)))
  udp.bind(0, '127.0.0.1')
  await once(udp, 'listening')
  t.after(() => udp.close())
  let text = ''
  const tcp = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      text += bytes
    })
  })
  tcp.listen(0, '127.0.0.1')
  await once(tcp, 'listening')
  t.after(() => tcp.close())
  const overUdp = createAccessLog([syslogOverUdp('127.0.0.1', udp.address().port, 'edge-1')], whole, silent())
  const overTcp = createAccessLog(
    [syslogOverTcp('127.0.0.1', (tcp.address() as AddressInfo).port, 'edge-1')],
    whole,
    silent(),
  )
  overUdp.note(requestOf(), line(1))
  overTcp.note(requestOf(), line(1))
  overTcp.note(requestOf(), line(2))
  await poll(() => datagrams.length === 1 && text.includes('"gatehouse.sequence":2'))
  await Promise.all([overUdp.close(), overTcp.close()])
  assert.match(datagrams[0] ?? '', /^<134>1 2026-01-02T03:04:05\.678Z edge-1 gatehouse-edge - access - \{"timestamp"/)
  const [, length] = /^(\d+) <134>1 /.exec(text) ?? []
  const first = text.slice(String(length).length + 1, String(length).length + 1 + Number(length))
  assert.ok(first.endsWith('}') && JSON.parse(first.slice(first.indexOf('{')))['gatehouse.sequence'] === 1)
})

test('an OTLP endpoint gets what the protocol says, again when it is busy, and not when it refuses', async (t) => {
  const bodies: string[] = []
  const statuses = [503, 200, 400]
  const server = createHttpServer(async (request, response) => {
    bodies.push(
      await request
        .setEncoding('utf8')
        .toArray()
        .then((parts) => parts.join('')),
    )
    response.writeHead(statuses[bodies.length - 1] ?? 200).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/logs`
  const log = createAccessLog([otlpSink(url, 'edge-1', '1')], whole, silent())
  log.note(requestOf({ trace: '0af7651916cd43dd8448eb211c80319c' }), line(1))
  await poll(() => bodies.length === 2)
  assert.equal(bodies[0], bodies[1])
  const [{ scopeLogs, resource }] = JSON.parse(bodies[0] ?? '').resourceLogs
  const [record] = scopeLogs[0].logRecords
  assert.deepEqual([record.timeUnixNano, record.traceId], ['1767323045678000000', '0af7651916cd43dd8448eb211c80319c'])
  assert.ok(
    record.attributes.some(
      (each: object) => JSON.stringify(each) === '{"key":"http.response.status_code","value":{"intValue":"200"}}',
    ),
  )
  assert.equal(resource.attributes[0].value.stringValue, 'gatehouse-edge')
  log.note(requestOf(), line(2))
  await poll(() => log.metrics()['gatehouse_edge_access_log_dropped_total{destination="otlp"}'] === 1)
  await log.close()
})

test('docs/guides/access-log.md has the fields of the code, and its reasons', async () => {
  const page = await readFile(new URL('../../../docs/guides/access-log.md', import.meta.url), 'utf8')
  for (const { name, meaning } of accessLogFields) assert.ok(page.includes(`\n| \`${name}\` | ${meaning} |\n`), name)
  const table = page.slice(page.indexOf('## Fields'), page.indexOf('## Outcomes'))
  assert.equal([...table.matchAll(/^\| `/gm)].length, accessLogFields.length)
  const reasons = page.slice(page.indexOf('## Outcomes'), page.indexOf('## Sampling'))
  for (const reason of Object.values(requestReasons).flat()) assert.ok(reasons.includes(`\`${reason}\``), reason)
})
