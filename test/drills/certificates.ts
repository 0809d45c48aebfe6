// `npm run drill -- certificates <certificates> <runs>`: 10,000 certificates of accounts on one node: memory, start, a
// replacement, idle cost, and that each name gets its own. How long until all of them are served: attached all together,
// after a restart, and by a node with an empty disk; how long until a client sees one that was replaced; what HAProxy and
// the agent take of memory, and of the processor when nothing happens.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import { writeOutbox } from '../../src/operations/outbox.ts'
import { statusOf } from '../agent/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { haproxyWorker, memoryOf } from '../harness/node_memory.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantiles } from '../harness/quantiles.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'

const count = Number(process.argv[2] ?? 10_000)
const runs = Number(process.argv[3] ?? 3)
const sampleSize = 300
const replacements = 20
const idleWindows = 5
const idleSeconds = 10
const uploadsAtOnce = 8
const operatorFiles = 1_000

/** One that is uploaded, the domain that uses it, and names that a client asks for with what they must get. */
type Uploaded = { id: `cert_${string}`; uri: string; serial: string; domain: string; names: string[]; asked: string }

await drill(async (scope) => {
  const installation = await startInstallation(scope, { GATEHOUSE_CERTIFICATES_PER_ACCOUNT: String(count) })
  let edge = await installation.startEdge()
  console.log(`memory with one certificate: ${await memoryOf(edge)}`)
  const all = await timed(`${count} certificates uploaded`, () => uploadAll(installation))
  const names = all.reduce((sum, each) => sum + each.names.length, 0)
  const isServed = () => untilServed(edge, names)

  const generation = await timed('attached to their domains in one transaction', () => attachAll(installation, all))
  await timed(`all ${names} names served after that commit, by a node that runs`, isServed)
  console.log(`the node says it has applied generation ${(await statusOf(edge)).applied} of ${generation}`)
  console.log(`memory: ${await memoryOf(edge)}`)
  let wrong = await wrongInSample(edge, all)

  console.log(`a replaced certificate is served after ${quantiles(await replaceSome(installation, edge, all))}`)
  console.log(`idle: ${await idleCost(edge)}`)
  await addOperatorFiles(edge)
  console.log(`idle with ${operatorFiles} files of the operator as well: ${await idleCost(edge)}`)

  for (let index = 0; index < runs; index++) {
    await stop(edge.child)
    await timed(`restart ${index + 1}: all served from disk`, async () => {
      edge = await installation.startEdge({ like: edge, cutOff: true })
      await untilServed(edge, names)
    })
    console.log(`memory: ${await memoryOf(edge)}`)
  }
  wrong += await wrongInSample(edge, all)
  for (let index = 0; index < runs; index++) {
    await stop(edge.child)
    for (const lost of ['records.log', 'haproxy']) await rm(join(edge.folder, lost), { recursive: true, force: true })
    await timed(`empty disk ${index + 1}: all served from the bucket`, async () => {
      edge = await installation.startEdge({ like: edge, cutOff: true })
      await untilServed(edge, names)
    })
  }
  wrong += await wrongInSample(edge, all)
  return wrong === 0
})

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now()
  const result = await work()
  console.log(`${what}: ${((performance.now() - began) / 1_000).toFixed(1)} s`)
  return result
}

/** In each four: a domain with its wildcard, a name below that wildcard with a certificate of its own, and two exact ones. */
function namesOf(index: number): { domain: string; names: string[]; asked: string } {
  const domain = index % 4 === 1 ? `exact.d${index - 1}.bulk.test` : `d${index}.bulk.test`
  if (index % 4 === 0) return { domain, names: [domain, `*.${domain}`], asked: `any${index}.${domain}` }
  return { domain, names: [domain], asked: domain }
}

async function uploadAll({ admin }: Installation): Promise<Uploaded[]> {
  const all: Uploaded[] = []
  let next = 0
  const upload = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      const { domain, names, asked } = namesOf(index)
      const { status, body, text } = await admin('POST', '/tls_certificates', quickCertificate(names))
      assert.equal(status, 201, text)
      all.push({ id: body.id, uri: body.uri, serial: body.serial_number, domain, names, asked })
    }
  }
  await Promise.all(Array.from({ length: uploadsAtOnce }, upload))
  return all
}

/** Straight into the tables: proofs of ten thousand domains are not what is measured. */
function attachAll({ db, admin }: Installation, all: readonly Uploaded[]): Promise<number> {
  const account = toUuid(admin.accountId as `ac_${string}`)
  const [ids, domains, certificates] = [
    all.map(() => newUuid()),
    all.map(({ domain }) => domain),
    all.map(({ id }) => toUuid(id)),
  ]
  return transaction(db, async (tx) => {
    await run(
      tx,
      sql`
      insert into reserved_domains (account_id, id, domain, challenge, status, verified_at, certificate_id)
      select ${account}, id, domain, 'gatehouse-verification=' || id, 'assigned', now(), certificate
      from unnest(${ids}::uuid[], ${domains}::text[], ${certificates}::uuid[]) as r (id, domain, certificate)`,
    )
    return writeOutbox(
      tx,
      account,
      all.map(({ id }) => `certificate.${id}` as const),
    )
  })
}

/** The file that every node of a test has, for *.example. */
const namesInFolder = 1

async function untilServed(edge: EdgeProcess, names: number): Promise<void> {
  await poll(
    // A busy agent may close a kept connection instead of answering.
    () => statusOf(edge).catch(() => undefined),
    (status) => status?.certificates?.names === names + namesInFolder,
    { withinSeconds: 900, everyMs: 100 },
  )
}

function serialFor({ httpsPort }: EdgeProcess, servername: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connectTls({ port: httpsPort, host: '127.0.0.1', servername, rejectUnauthorized: false })
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate().serialNumber.toLowerCase())
      socket.destroy()
    })
    socket.once('error', () => resolve(undefined))
  })
}

async function wrongInSample(edge: EdgeProcess, all: readonly Uploaded[]): Promise<number> {
  const sample = Array.from({ length: sampleSize }, () => all[Math.floor(Math.random() * all.length)] as Uploaded)
  let wrong = 0
  for (const { asked, serial } of sample) if ((await serialFor(edge, asked)) !== serial) wrong++
  console.log(
    `of ${sampleSize} random names, exact and under wildcards, ${wrong} had another certificate than their own`,
  )
  return wrong
}

async function replaceSome({ admin }: Installation, edge: EdgeProcess, all: Uploaded[]): Promise<number[]> {
  const latencies: number[] = []
  for (let index = 0; index < replacements; index++) {
    const one = all[Math.floor((index * all.length) / replacements)] as Uploaded
    const { status, body, text } = await admin('PATCH', one.uri, quickCertificate(one.names))
    assert.equal(status, 200, text)
    const answered = performance.now()
    await poll(
      () => serialFor(edge, one.asked),
      (serial) => serial === body.serial_number,
      { everyMs: 2 },
    )
    latencies.push(performance.now() - answered)
    one.serial = body.serial_number
  }
  return latencies
}

/** Resolves when they have been served and their times are old enough not to be looked at again. */
async function addOperatorFiles(edge: EdgeProcess): Promise<void> {
  const name = (index: number) => `o${index}.operator.test`
  for (let index = 0; index < operatorFiles; index++) {
    const { certificate_pem, private_key_pem } = quickCertificate([name(index)])
    await writeFile(join(edge.folder, 'certificates', `${name(index)}.pem`), certificate_pem + private_key_pem)
  }
  await poll(
    () => serialFor(edge, name(operatorFiles - 1)),
    (serial) => serial !== undefined,
    { withinSeconds: 300 },
  )
  await pause(10_000)
}

/** Percent of one core, in each of a few windows in which nothing is asked of the node. */
async function idleCost(edge: EdgeProcess): Promise<string> {
  const processes = { agent: edge.child.pid ?? 0, HAProxy: await haproxyWorker(edge) }
  const seen = { agent: [] as number[], HAProxy: [] as number[] }
  for (let window = 0; window < idleWindows; window++) {
    const before = { agent: processorMs(processes.agent), HAProxy: processorMs(processes.HAProxy) }
    await pause(idleSeconds * 1_000)
    for (const name of ['agent', 'HAProxy'] as const)
      seen[name].push((processorMs(processes[name]) - before[name]) / idleSeconds / 10)
  }
  return Object.entries(seen)
    .map(([name, shares]) => `${name} ${shares.map((share) => share.toFixed(1)).join(', ')} % of a core`)
    .join('; ')
}

/** Linux counts in hundredths of a second. */
function processorMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}
