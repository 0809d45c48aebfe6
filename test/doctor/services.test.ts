// `gatehouse doctor` without settings: it reads those of the services, and finds what is wrong with each.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { asAppRole } from '../../dev/app_role.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { diagnose, healthySetUp, query, write } from './setup.ts'
import { diagnoseUnits, stoppedUnits, type Units } from './units.ts'

const isRoot = process.getuid?.() === 0
const setUp = await healthySetUp({ after })
const { folder } = setUp
// A service's own user must reach the folders in it.
await chmod(folder, 0o755)
const units = await stoppedUnits(setUp)
const home = join(folder, 'units')

/** The same units, with some properties of one changed. */
const changed = (unit: string, show: Units[string]['show'], text?: string): Units => {
  const before = units[unit] ?? assert.fail(unit)
  return { ...units, [unit]: { show: { ...before.show, ...show }, text: text ?? before.text } }
}
const running = { ActiveState: 'active', SubState: 'running' }

/** Mounted for the time of the tests. */
async function smallDisk(name: string, options: string): Promise<string | undefined> {
  const path = join(folder, name)
  await mkdir(path)
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', path]).status !== 0) return undefined
  after(() => spawnSync('umount', [path]))
  return path
}

const edgeWith = async (settings: Record<string, string>): Promise<Units> => {
  const text = Object.entries({ ...setUp.edge, ...settings }).map(([name, value]) => `${name}=${value}\n`)
  const file = await write(join(home, 'changed-edge.env'), text.join(''))
  return changed('gatehouse-edge.service', { EnvironmentFiles: `${file} (ignore_errors=yes)` })
}

test('services are examined while they are stopped', { skip: !isRoot && 'not root' }, async (t) => {
  // The services of the units stay as they are.
  await setUp.createBuckets(t)
  await poll(
    () => diagnose(setUp.edge),
    ({ code }) => code === 0,
  )
  await t.test('nothing but that they do not run is found', async () => {
    const { code, findings } = await diagnoseUnits(folder, units)
    const others = findings.filter(({ status }) => status !== 'ok')
    assert.deepEqual(
      others.map(({ service, check, status, message }) => [service, check, status, message]),
      ['gatehouse.service', 'gatehouse-edge.service', 'gatehouse-nats.service'].map((unit) => [
        unit,
        'service.state',
        'warning',
        `${unit} is not running (inactive)`,
      ]),
    )
    assert.equal(code, 0)
    const found = (check: string) => findings.find((finding) => finding.check === check)?.message ?? ''
    assert.match(found('secrets.key'), /secrets\.key has one key$/)
    assert.match(found('postgresql.owner'), /^\w+ can migrate the tables$/)
    assert.match(found('haproxy.descriptors'), /the limit of gatehouse-edge\.service is 262144$/)
    assert.match(found('nats.folder'), /units\/nats can be written to, and has \d+ MB/)
    assert.deepEqual(
      (await readdir(join(home, 'nats'))).filter((name) => name.includes('doctor')),
      [],
    )
  })

  await t.test('one of them alone, by its name without its suffix', async () => {
    const { findings } = await diagnoseUnits(folder, units, '--service', 'gatehouse-migrate')
    assert.deepEqual([...new Set(findings.flatMap(({ service }) => service ?? []))], ['gatehouse-migrate.service'])
  })

  for (const [name, broken] of Object.entries(brokenUnits))
    await t.test(name, async (s) => {
      const given = await broken.units()
      if (given === undefined) return s.skip('cannot mount here')
      const { code, findings, text } = await diagnoseUnits(folder, given, '--service', broken.unit)
      const faults = findings.filter(({ status }) => status === 'failed')
      assert.equal(code, 1, text)
      assert.deepEqual([...new Set(faults.map(({ check }) => check))], [broken.check], JSON.stringify(faults))
      assert.match(faults[0]?.message ?? '', broken.says)
      assert.match(faults[0]?.hint ?? '', broken.hint)
      assert.ok(!text.includes('not-the-password'))
    })
})

type Broken = {
  units: () => Promise<Units | undefined> | Units
  unit: string
  check: string
  says: RegExp
  hint: RegExp
}

async function ownerUrl(url: string): Promise<Units> {
  const file = await write(join(home, 'other-owner-url'), `${url}\n`)
  return changed('gatehouse-migrate.service', {}, `[Service]\nLoadCredential=database-owner-url:${file}\n`)
}

const brokenUnits: Record<string, Broken> = {
  'a masked unit': {
    units: () => changed('gatehouse.service', { LoadState: 'masked' }),
    unit: 'gatehouse',
    check: 'service.state',
    says: /^gatehouse\.service is masked/,
    hint: /^Run: systemctl unmask gatehouse\.service$/,
  },
  'a unit that does not exist': {
    units: () => units,
    unit: 'gatehouse-blue',
    check: 'service.state',
    says: /^systemd has no unit gatehouse-blue\.service$/,
    hint: /list-unit-files/,
  },
  'a migration that failed': {
    units: () =>
      changed('gatehouse-migrate.service', { ActiveState: 'failed', Result: 'exit-code', ExecMainStatus: '1' }),
    unit: 'gatehouse-migrate',
    check: 'service.state',
    says: /^gatehouse-migrate\.service failed: exit-code, exit status 1$/,
    hint: /journalctl -u gatehouse-migrate\.service/,
  },
  'a wrong password of the owner': {
    units: () => {
      const url = new URL(asAppRole(setUp.databaseUrl))
      url.password = 'not-the-password'
      return ownerUrl(url.href)
    },
    unit: 'gatehouse-migrate',
    check: 'postgresql.owner',
    says: /^password authentication failed for user/,
    hint: /^Correct the URL in .*other-owner-url/,
  },
  'an owner that does not own the tables': {
    units: () => ownerUrl(asAppRole(setUp.databaseUrl)),
    unit: 'gatehouse-migrate',
    check: 'postgresql.owner',
    says: /^gatehouse_app does not own \d+ of the tables/,
    hint: /^Use the URL of the role that owns them/,
  },
  'a role that migrate cannot grant rights to': {
    units: () =>
      changed('gatehouse-migrate.service', {
        Environment:
          'GATEHOUSE_DATABASE_URL_FILE=/run/credentials/gatehouse-migrate.service/database-owner-url GATEHOUSE_DATABASE_APP_ROLE=not_there',
      }),
    unit: 'gatehouse-migrate',
    check: 'postgresql.owner',
    says: /^the role not_there, .* does not exist$/,
    hint: /GATEHOUSE_DATABASE_APP_ROLE/,
  },
  'a limit of descriptors that is too low in the unit': {
    units: () => changed('gatehouse-edge.service', { LimitNOFILE: '300' }),
    unit: 'gatehouse-edge',
    check: 'haproxy.descriptors',
    says: /and the limit of gatehouse-edge\.service is 300$/,
    hint: /^Set LimitNOFILE=406 in the unit/,
  },
  'a service that runs and does not listen': {
    units: () => changed('gatehouse.service', running),
    unit: 'gatehouse',
    check: 'listen.port',
    says: /^gatehouse\.service is running, and nothing listens on 127\.0\.0\.1:\d+$/,
    hint: /journalctl -u gatehouse\.service$/,
  },
  "a folder that the service's user may not write to": {
    async units() {
      const path = join(folder, 'closed')
      await mkdir(path, { mode: 0o755 })
      const given = await edgeWith({ GATEHOUSE_EDGE_FOLDER: path })
      const unit = given['gatehouse-edge.service'] ?? assert.fail()
      return { ...given, 'gatehouse-edge.service': { ...unit, show: { ...unit.show, User: 'nobody' } } }
    },
    unit: 'gatehouse-edge',
    check: 'edge.folder',
    says: /closed, which cannot be written to: Permission denied$/,
    hint: /chown nobody$/,
  },
  'a full disk': {
    async units() {
      const path = await smallDisk('full', 'size=32k')
      return path === undefined ? undefined : edgeWith({ GATEHOUSE_EDGE_FOLDER: path })
    },
    unit: 'gatehouse-edge',
    check: 'edge.folder',
    says: /full, which cannot be written to: No space left on device$/,
    hint: /^Delete what is not needed/,
  },
  'a disk that will soon be full': {
    async units() {
      const path = await smallDisk('small', 'size=3m')
      return path === undefined ? undefined : edgeWith({ GATEHOUSE_EDGE_FOLDER: path })
    },
    unit: 'gatehouse-edge',
    check: 'edge.folder',
    says: /small has only 3 MB and \d+ inodes free$/,
    hint: /^Delete what is not needed/,
  },
  'a file system without inodes for the access log': {
    async units() {
      const path = await smallDisk('inodes', 'size=900m,nr_inodes=50')
      return path === undefined ? undefined : edgeWith({ GATEHOUSE_EDGE_ACCESS_LOG: join(path, 'access.log') })
    },
    unit: 'gatehouse-edge',
    check: 'edge.access_log',
    says: /inodes has only \d+ MB and 4\d inodes free$/,
    hint: /^Delete what is not needed/,
  },
  'a folder of NATS that is gone with the one above it': {
    async units() {
      const file = await write(join(home, 'lost.conf'), 'jetstream { \n store_dir = /nowhere/at/all\n}\n')
      const unit = units['gatehouse-nats.service'] ?? assert.fail()
      const program = String(unit.show.ExecStart).replace(/-c \S+/, `-c ${file}`)
      return changed('gatehouse-nats.service', { ExecStart: program })
    },
    unit: 'gatehouse-nats',
    check: 'nats.folder',
    says: /^store_dir is \/nowhere\/at\/all, which cannot be written to: /,
    hint: /chown/,
  },
}

test('a missing file of a credential is named', { skip: !isRoot && 'not root' }, async () => {
  const given = changed('gatehouse.service', {}, `[Service]\nLoadCredential=database-url:${home}/gone\n`)
  const { findings } = await diagnoseUnits(folder, given, '--service', 'gatehouse.service')
  const faults = findings.filter(({ status }) => status === 'failed').map(({ check, message }) => `${check} ${message}`)
  assert.match(
    faults.join('\n'),
    /^service\.credentials the file of GATEHOUSE_DATABASE_URL_FILE is to be a copy of .*\/gone, which does/,
  )
  assert.match(faults.join('\n'), /^settings GATEHOUSE_DATABASE_URL is not set/m)
})

test('a node of another version is named', async () => {
  const url = await newDatabase()
  await query(
    url,
    `insert into edge_nodes (name, version, applied_generation, records, refusals, started_at, last_seen_at)
      values ('edge-7', '0.0.1', 1, 1, '[]', now(), now())`,
  )
  const { findings } = await diagnose({ ...setUp.controlPlane, GATEHOUSE_DATABASE_URL: asAppRole(url) })
  const found = findings.filter(({ check }) => check === 'versions.nodes')
  assert.equal(found[0]?.status, 'warning')
  assert.match(found[0]?.message ?? '', /^edge-7 runs 0\.0\.1, and this control plane is \d/)
})

test('a service that has not been restarted since an upgrade is named', async (t) => {
  const older = createServer((_request, response) => response.end('gatehouse_build_info{version="0.0.1"} 1\n'))
  older.listen(0, '127.0.0.1')
  await once(older, 'listening')
  t.after(() => older.close())
  const { port } = older.address() as AddressInfo
  const { findings } = await diagnose({ ...setUp.controlPlane, GATEHOUSE_LISTEN: `127.0.0.1:${port}` })
  const found = findings.find(({ check }) => check === 'versions.running')
  assert.match(found?.message ?? '', /^0\.0\.1 is running, and \d\S+ is installed$/)
  assert.equal(found?.status, 'warning')
})

test('without settings and without units, doctor says so', async () => {
  const { code, findings } = await diagnoseUnits(folder, {})
  assert.equal(code, 1)
  assert.match(findings.at(-1)?.message ?? '', /nor units of Gatehouse on this machine$/)
  await rm(join(folder, 'systemctl'), { recursive: true })
})
