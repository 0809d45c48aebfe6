// What docs/operate/doctor.md shows: real runs, with the names and numbers of this machine replaced by those of an example.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { asAppRole } from '../../dev/app_role.ts'
import { newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, type Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { diagnose, type Environment, healthySetUp, newBackup, query, silentPort, startTlsNats, write } from './setup.ts'

/** In the order of the page: a healthy control plane, a broken one, and a broken edge node. */
export async function recordSessions(scope: Scope): Promise<string[]> {
  const { folder, nats, controlPlane, edge, createBuckets } = await healthySetUp(scope)
  const run = async (env: Environment, database: string, file: string) => {
    const { stdout } = await gatehouse(['doctor'], env)
    const places: [string | undefined, string][] = [
      [new URL(database).host, 'db.example:5432'],
      [`127.0.0.1:${new URL(database).port}`, 'db.example:5432'],
      [new URL(database).pathname.slice(1), 'gatehouse'],
      [env.GATEHOUSE_NATS_URL, 'tls://nats-1:4222'],
      [env.GATEHOUSE_DNS_SERVERS, '192.0.2.53'],
      [env.GATEHOUSE_EDGE_DNS_SERVERS, '192.0.2.53'],
      [env.GATEHOUSE_LISTEN, '127.0.0.1:8080'],
      [env.GATEHOUSE_EDGE_STATUS_LISTEN, '127.0.0.1:9180'],
      [env.GATEHOUSE_TCP_PORTS, '20000-20004'],
      [env.GATEHOUSE_EDGE_HTTPS_LISTEN, '0.0.0.0:443'],
      [join(folder, 'edge-certificates'), '/etc/gatehouse-edge/certificates'],
      [join(folder, 'edge'), '/var/lib/gatehouse-edge'],
      [folder, '/etc/gatehouse'],
    ]
    let text = stdout
    for (const [from, to] of places) if (from) text = text.replaceAll(from, to)
    return `$ gatehouse doctor --env-file ${file}\n${withExampleNumbers(text)}`
  }
  const own = controlPlane.GATEHOUSE_DATABASE_URL ?? ''
  const healthy = await run(controlPlane, own, '/etc/gatehouse/gatehouse.env')

  const unsafe = await newDatabase()
  await query(unsafe, newBackup)
  await query(unsafe, `alter database ${new URL(unsafe).pathname.slice(1)} set synchronous_commit = off`)
  const misnamed = await startTlsNats(scope, folder, 'nats')
  const broken = { ...controlPlane, ...misnamed.controlPlane, GATEHOUSE_DATABASE_URL: asAppRole(unsafe) }
  const brokenPlane = await run(broken, unsafe, '/etc/gatehouse/gatehouse.env')

  await createBuckets(scope)
  await poll(
    () => diagnose(edge),
    ({ code }) => code === 0,
  )
  const certificates = join(folder, 'edge-certificates')
  await mkdir(certificates)
  const { certificate_pem, private_key_pem } = newCertificate(['old.example'], { days: -1 })
  await write(join(certificates, 'old.pem'), certificate_pem + private_key_pem)
  const brokenEdge = await run(
    {
      ...edge,
      GATEHOUSE_EDGE_CERTIFICATES: certificates,
      GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${await silentPort(scope)}`,
      GATEHOUSE_EDGE_UPSTREAM_CA_FILE: nats.edge.GATEHOUSE_NATS_CA_FILE ?? '',
    },
    own,
    '/etc/gatehouse-edge/edge.env',
  )
  return [healthy, brokenPlane, brokenEdge]
}

/** Versions, dates, limits and the address of NATS differ from machine to machine and from day to day. */
const withExampleNumbers = (text: string): string =>
  text
    .replace(/(node\.version +).*/, '$124.15.0 (/usr/bin/node)')
    .replace(/(postgresql\.version +).*/, '$118.4')
    .replace(/(haproxy\.version +).*/, '$13.4.7')
    .replace(/of \d+$/m, 'of 97')
    .replace(/all \d+ applied/, 'all 35 applied')
    .replace(/nats-server \d[\d.]*/, 'nats-server 2.12.1')
    .replace(/until \d{4}-\d\d-\d\d/g, 'until 2027-02-14')
    .replace(/expired on \d{4}-\d\d-\d\d/g, 'expired on 2026-11-14')
    .replace(/limit here is \d+/, 'limit here is 262144')
    .replace(/\/etc\/gatehouse\/127\.0\.0\.1-ca\.pem/, '/etc/ssl/certs/ca-certificates.crt')
    .replace('not 127.0.0.1', 'not nats-1')
    .trimEnd()
