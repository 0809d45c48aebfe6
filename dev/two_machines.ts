// `npm run drill -- two-machines [--built] [--control FOLDER]`: a second machine becomes an edge node, by the commands of
// docs/guides/add-an-edge-node.md, as printed. The first machine is made by docs/guides/install-debian.md, or once and kept
// in FOLDER. The new node must serve a request within a minute of its invitation, without a restart of NATS or of another
// node. Tokens that were used, have expired or were invented are refused and recorded. A revoked node loses its connection
// within a second, and its log says why.
import assert from 'node:assert/strict'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { boot, copyPackages, type Machine, makeDebian, openArchiveProxy, timed } from './debian_machine.ts'
import { withInstallation } from './machine_service.ts'

const root = new URL('..', import.meta.url).pathname
const { values } = parseArgs({ options: { built: { type: 'boolean' }, control: { type: 'string' } } })

const page = await readFile(join(root, 'docs/guides/add-an-edge-node.md'), 'utf8')
/** The commands of a section, as printed. */
function commandsOf(section: string): string {
  const [, text = ''] = new RegExp(`^## \\d\\. ${section}$(.*?)^## `, 'ms').exec(page) ?? []
  const [, commands] = /^```sh\n(.*?)^```/ms.exec(text) ?? []
  if (!commands) throw new Error(`docs/guides/add-an-edge-node.md has no commands under '${section}'`)
  return commands
}

async function type(machine: Machine, where: string, commands: string): Promise<string> {
  console.log(commands.trimEnd().replaceAll(/^/gm, `   ${where}# `))
  const said = await timed(where, () => machine.sh(commands))
  console.log(said.trimEnd().split('\n').slice(-8).join('\n').replaceAll(/^/gm, '   '))
  return said
}

/** Follows docs/guides/put-tls-in-front.md, with nginx and a company's authority. Its own node leaves port 443 to it. */
async function putTlsInFront(control: Machine, controlFolder: string): Promise<void> {
  const example = await readFile(join(root, 'examples/proxies/nginx.conf'), 'utf8')
  const conf = example
    .replace(/ +server 127\.0\.0\.1:8081.*\n/, '')
    .replaceAll('gatehouse.example.com', 'control.example')
    .replace('listen 443 ssl', `listen ${control.address}:443 ssl`)
  await writeFile(join(controlFolder, 'root/control.conf'), conf)
  await control.sh(`apt-get -qq -y install nginx-light
    printf 'GATEHOUSE_EDGE_HTTPS_LISTEN=127.0.0.1:443\\n' >>/etc/gatehouse-edge/edge.env
    systemctl restart gatehouse-edge.service
    printf 'GATEHOUSE_TRUSTED_PROXIES=127.0.0.1\\n' >>/etc/gatehouse/gatehouse.env
    systemctl restart gatehouse.service
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj '/CN=Company' -keyout company.key -out company.crt
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=control.example -keyout control.key -out control.csr
    printf 'subjectAltName=DNS:control.example\\n' >control.ext
    openssl x509 -req -in control.csr -CA company.crt -CAkey company.key -CAcreateserial -days 9 -extfile control.ext -out control.crt
    mkdir -p /etc/ssl/gatehouse
    cp control.crt /etc/ssl/gatehouse/fullchain.pem; cp control.key /etc/ssl/gatehouse/privkey.pem
    rm -f /etc/nginx/sites-enabled/default; cp control.conf /etc/nginx/conf.d/
    systemctl restart nginx.service`)
}

const processes = (machine: Machine) =>
  machine.sh(
    'for unit in gatehouse-nats gatehouse-edge; do systemctl show -P MainPID $unit.service; done; pgrep -o haproxy',
  )

async function refuses(node: Machine, why: string, token: string): Promise<void> {
  const join = `gatehouse-edge join https://control.example --name other --token ${token} --settings /root/${why}.env`
  const { code, output } = await node.attempt(`GATEHOUSE_EDGE_FOLDER=/root/${why} ${join}`)
  assert.equal(code, 2, output)
  assert.match(output, /The join token is unknown, has expired or was used/)
  console.log(`── a token that ${why}: ${output.trim()}`)
}

async function refusals(control: Machine, node: Machine, used: string): Promise<void> {
  await refuses(node, 'was-used', used)
  const expired = (await control.sh('gatehouse nodes invite 2>/dev/null')).trim()
  await control.sh(
    `runuser -u postgres -- psql -q gatehouse -c "update join_tokens set expires_at = now() where used_by is null"`,
  )
  await refuses(node, 'has-expired', expired)
  await refuses(node, 'was-invented', `gatehouse_join_${'A'.repeat(43)}`)
  const events = (await control.sh('gatehouse nodes events')).trim().split('\n')
  console.log(events.slice(-5).join('\n'))
  const refused = events.map((line) => JSON.parse(line)).filter(({ operation }) => operation === 'join_refused')
  assert.deepEqual(
    refused.map(({ detail, source_ip }) => [detail, source_ip]),
    ['used', 'expired', 'unknown'].map((why) => [`join token: ${why}`, node.address]),
  )
}

async function revocation(control: Machine, node: Machine): Promise<void> {
  const established = "ss -Htn state established '( dport = :4222 )'"
  const connections = async () => (await node.sh(established)).trim()
  assert.notEqual(await connections(), '')
  // The two machines share one clock.
  const closed = node.sh(`while [ -n "$(${established})" ]; do :; done; date +%s%3N`)
  const said = await control.sh('gatehouse nodes revoke edge-2; date +%s%3N')
  const [line = '', ended] = said.trim().split('\n')
  assert.match(line, /edge-2 is revoked, and NATS has closed its connection/)
  const after = Number((await closed).trim()) - Number(ended)
  console.log(`── revoked: the connection was closed ${after} ms after the command ended`)
  assert.ok(after < 1_000, `${after} ms`)
  const log = () => node.sh("journalctl -b -u gatehouse-edge.service -o cat | grep 'was revoked' || true")
  for (let tries = 0; (await log()) === ''; tries++) {
    if (tries > 20) throw new Error(await node.sh('journalctl -b -u gatehouse-edge.service -o cat -n 20'))
    await setTimeout(500)
  }
  console.log((await log()).trim())
}

const served = `curl -s --max-time 2 -o /dev/null -w '%{http_code}' --cacert app.example.crt`

async function addNode(control: Machine, node: Machine, folders: { control: string; node: string }): Promise<void> {
  await type(node, 'edge-2', commandsOf('Install the package and HAProxy'))
  for (const name of ['app.example.pem', 'app.example.crt', 'company.crt'])
    await copyFile(join(folders.control, 'root', name), join(folders.node, 'root', name))
  await node.sh(`install -m 0640 -g gatehouse-edge app.example.pem /etc/gatehouse-edge/certificates/
    cp company.crt /usr/local/share/ca-certificates/; update-ca-certificates; apt-get -qq -y install iproute2`)
  const before = await processes(control)
  const began = Date.now()
  const token = /gatehouse_join_\S{43}/.exec(await type(control, 'control', commandsOf('Invite it')))?.[0] ?? ''
  await type(node, 'edge-2', commandsOf('Join').replace('gatehouse_join_…', token))
  const url = `--connect-to app.example:443:${node.address}:443 https://app.example/`
  while ((await control.attempt(`${served} ${url}`)).output !== '200\n') {
    if (Date.now() - began > 60_000) throw new Error('the new node serves nothing a minute after it was invited')
    await setTimeout(200)
  }
  console.log(`── from the invitation to the first request served: ${((Date.now() - began) / 1_000).toFixed(1)} s`)
  assert.equal(await processes(control), before, 'NATS or the other node was restarted')
  const modes = await node.sh(
    'stat -c "%a %U" /etc/gatehouse-edge/joined.env /var/lib/gatehouse-edge/{nats.creds,node.key}',
  )
  assert.equal(modes, '600 root\n600 gatehouse-edge\n600 gatehouse-edge\n')
  const key = 'export GATEHOUSE_URL=http://127.0.0.1:8080 GATEHOUSE_API_KEY=$(cat /etc/gatehouse/admin-token)\n'
  assert.match(await type(control, 'control', key + commandsOf('Send it traffic')), /edge-1.*\n.*edge-2/)
  await refusals(control, node, token)
  await revocation(control, node)
}

await withInstallation({ built: values.built, machine: values.control }, async (controlFolder) => {
  const folders = { control: controlFolder, node: await mkdtemp(join(tmpdir(), 'gatehouse-node-')) }
  const running: Machine[] = []
  try {
    await makeDebian(folders.node)
    await copyPackages(join(root, 'packages'), folders.node)
    const control = await boot(folders.control, 1)
    running.push(control)
    const node = await boot(folders.node, 2)
    running.push(node)
    const closeProxy = await openArchiveProxy()
    for (const machine of running) await machine.sh(`echo '${control.address} control.example' >>/etc/hosts`)
    await timed('TLS in front of the API', () => putTlsInFront(control, folders.control))
    await type(control, 'control', commandsOf('Let other machines reach the control plane'))
    await addNode(control, node, folders)
    closeProxy()
  } finally {
    for (const machine of running) await machine.cutPower()
    await rm(folders.node, { recursive: true, force: true })
  }
})
