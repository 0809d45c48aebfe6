import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bootstrapAccount } from '../../src/commands/accounts/bootstrap.ts'
import { startDashboard } from '../dashboard/browser.ts'
import type { ControlPlane, Scope } from '../harness/control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { startProvider, type TestProvider } from './provider.ts'

export type SignInPlane = ControlPlane & {
  origin: string
  acme: TestProvider
  other: TestProvider
  /** Creates an account under a name that a provider of the file has. */
  named: (accountName: string) => ReturnType<typeof bootstrapAccount>
}

const secret = 'a client secret that cannot be guessed, for a test'

/** One serve, two providers with an account each, and a third one that is down. */
export async function startSignIn(scope: Scope, env: Record<string, string> = {}): Promise<SignInPlane> {
  let acme: TestProvider | undefined
  let other: TestProvider | undefined
  const plane = await startDashboard(scope, async (origin) => {
    const client = (name: string) => ({
      client_id: 'gatehouse',
      client_secret: secret,
      redirect_uris: [`${origin}/sign_in/oidc/${name}/callback`],
      post_logout_redirect_uris: [`${origin}/dashboard/`],
      backchannel_logout_uri: `${origin}/sign_in/oidc/${name}/backchannel_logout`,
      backchannel_logout_session_required: true,
    })
    // Another site than the dashboard's to a browser.
    acme = await startProvider(scope, { host: 'localhost', client: client('acme') })
    other = await startProvider(scope, { client: client('other') })
    return { GATEHOUSE_OIDC_FILE: writeFile(acme.issuer, other.issuer), ...env }
  })
  if (!acme || !other) throw new Error('the providers were not started')
  const named = (accountName: string) =>
    bootstrapAccount(
      plane.db,
      { accountName, adminName: 'Root', adminEmail: `root@${accountName}.example` },
      plane.origin,
    )
  return { ...plane, acme, other, named }
}

function writeFile(acmeIssuer: string, otherIssuer: string): string {
  const folder = testRun.folder
  const name = `oidc-${process.pid}`
  writeFileSync(join(folder, `${name}.secret`), `${secret}\n`)
  const shared = {
    client_id: 'gatehouse',
    client_secret_file: `${name}.secret`,
    scopes: ['openid', 'email', 'profile', 'groups'],
  }
  const acme = {
    name: 'acme',
    title: 'Acme',
    account: 'acme',
    issuer: acmeIssuer,
    ...shared,
    create_users: true,
    link_by_email: true,
    allowed_domains: ['acme.example'],
    allowed_groups: ['ops', 'staff', 'guests'],
    roles: { admin: ['ops'], member: ['staff'], viewer: ['guests'] },
    default_role: 'member',
    clock_tolerance_seconds: 5,
  }
  const other = {
    name: 'other',
    account: 'other',
    issuer: otherIssuer,
    ...shared,
    create_users: true,
    allowed_groups: ['ops', 'staff', 'guests'],
    roles: { admin: ['ops'], member: ['staff'], viewer: ['guests'] },
  }
  // Port 9 is discard's, and unused here.
  const down = { ...other, name: 'down', title: 'Down', issuer: 'http://127.0.0.1:9' }
  const file = join(folder, `${name}.json`)
  writeFileSync(file, JSON.stringify({ providers: [acme, other, down] }))
  return file
}
