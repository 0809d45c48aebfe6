// For drills: checks whether the installation of docs/guides/install-debian.md works on a machine.
import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import {
  boot,
  copyPackages,
  type Machine,
  makeDebian,
  makeOwnPackages,
  openArchiveProxy,
  timed,
} from './debian_machine.ts'

const root = new URL('..', import.meta.url).pathname

const limitSeconds = 180

const atApi = `curl -s --max-time 10 -H "Authorization: Bearer $(cat /etc/gatehouse/admin-token)" -H 'Service-Version: 2'`
const atEdge = `curl -s --max-time 5 -o /dev/null -w '%{http_code}' --cacert app.example.crt --connect-to app.example:443:127.0.0.1:443`

/** What to install: a folder with packages, and the page to type. */
type Release = { packages: string; page: string }
const ownRelease: Release = { packages: join(root, 'packages'), page: join(root, 'docs/guides/install-debian.md') }

/**
 * For a drill: builds the packages, unless they are `built`, and installs these or those in `release`. A machine in a
 * given folder is made once and kept; any other is removed at the end.
 */
export async function withInstallation(
  { built, machine: given }: { built?: boolean | undefined; machine?: string | undefined },
  work: (folder: string) => Promise<void>,
  release = ownRelease,
): Promise<void> {
  if (!built) await timed('packages', makeOwnPackages)
  const folder = given ?? (await mkdtemp(join(tmpdir(), 'gatehouse-machine-')))
  try {
    if (!existsSync(join(folder, 'etc/gatehouse/setup.env'))) await installByPage(folder, release)
    await work(folder)
  } finally {
    if (!given) await rm(folder, { recursive: true, force: true })
  }
}

/** A new machine with the packages installed by the page. It is shut down at the end. */
async function installByPage(folder: string, { packages, page }: Release): Promise<void> {
  await timed('a clean Debian 12 (debootstrap, systemd)', () => makeDebian(folder))
  await copyPackages(packages, folder)
  const machine = await boot(folder)
  const closeProxy = await openArchiveProxy()
  try {
    const text = await readFile(page, 'utf8')
    await timed(basename(page), () => machine.typePage(text))
    await prepareService(machine)
  } finally {
    closeProxy()
    await machine.shutDown()
  }
}

/** Stores the id of the page's policy for the other scripts. */
async function prepareService(machine: Machine): Promise<void> {
  await machine.sh(
    `${atApi} http://127.0.0.1:8080/ip_policies | grep -o '"id":"ipp_[^"]*"' | head -1 | cut -d'"' -f4 >policy-id; grep -q ipp_ policy-id`,
  )
  await machine.sh('apt-get install -y -qq procps')
  // No load balancer has to take this node out of service.
  await machine.sh(
    'echo GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS=0 >>/etc/gatehouse-edge/edge.env; systemctl restart gatehouse-edge.service',
  )
}

/**
 * Denies an address through the API, and queries the edge from it and from another. After three minutes, resolves to
 * what is wrong.
 */
export async function inService(machine: Machine): Promise<string | undefined> {
  // An address that no earlier change has denied, even on a kept machine.
  const denied = `127.${[64, 256, 256].map((most) => randomInt(1, most)).join('.')}`
  const { code, output } = await machine.attempt(`
    printf '{"ip_policy_id":"%s","action":"deny","cidr":"%s"}' "$(cat policy-id)" ${denied} >rule.json
    end=$((SECONDS + ${limitSeconds})); made=no; seen=none
    while [ $SECONDS -lt $end ]; do
      if [ $made != yes ]; then
        made=$(${atApi} -o answer -w '%{http_code}' -H 'Content-Type: application/json' --data @rule.json \\
          http://127.0.0.1:8080/ip_policy_rules) || true
        if [ "$made" = 201 ] || [ "$made" = 409 ]; then made=yes; fi
      fi
      if [ $made = yes ]; then
        seen="$(${atEdge} --interface ${denied} https://app.example/ || true) $(${atEdge} --interface 127.0.0.1 https://app.example/ || true)"
        if [ "$seen" = '403 200' ]; then exit 0; fi
      fi
      sleep 0.3
    done
    echo "the API answered $made: $(cat answer 2>/dev/null); the edge answered $seen, and 403 200 is right"
    exit 1`)
  return code === 0 ? undefined : output
}

/**
 * Sends requests through the edge, one at a time. Resolves to a function that ends them, which resolves to the failures,
 * or ''.
 */
export async function startTraffic(machine: Machine): Promise<() => Promise<string>> {
  await machine.sh('rm -f /run/traffic /run/stop-traffic')
  const traffic = machine.attempt(`
    while [ ! -e /run/stop-traffic ]; do
      ${atEdge} --interface 127.0.0.1 https://app.example/ >>/run/traffic || true
      echo >>/run/traffic
      sleep 0.1
    done`)
  return async () => {
    await machine.sh('touch /run/stop-traffic')
    await traffic
    const codes = (await machine.sh('cat /run/traffic')).trim().split('\n')
    const failed = codes.filter((code) => code !== '200')
    console.log(`   ${codes.length} requests through the edge, ${failed.length} failed`)
    if (codes.length < 5) return `only ${codes.length} requests were sent`
    return failed.length > 0
      ? `${failed.length} of ${codes.length} requests failed (${[...new Set(failed)].join(', ')})`
      : ''
  }
}
