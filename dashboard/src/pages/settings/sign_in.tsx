import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { $api, type Shapes } from '../../api/client.ts'
import { signInOptions } from '../../api/session.ts'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { State } from '../../ui/state.tsx'
import { Ago } from '../../ui/time.tsx'
import { Line } from './line.tsx'

export function SignIn() {
  const options = useQuery(signInOptions)
  return (
    <Loaded query={options} lines={2}>
      {({ providers, token }) => (
        <>
          {providers.map(({ name, title }) => (
            <Line key={name} title={title} end={<State health="up">On</State>}>
              Identity provider
            </Line>
          ))}
          <Line title="API key" end={token ? <State health="up">On</State> : <span className="soft">Off</span>}>
            {token
              ? 'People can sign in with the token of an API key. It works while no provider answers.'
              : 'Tokens of API keys do not sign in here.'}
          </Line>
          <Line title="Users and their identities" end={<Link to="/people">People and bots</Link>}>
            {providers.length === 0 && 'This installation has no identity provider.'}
          </Line>
        </>
      )}
    </Loaded>
  )
}

const clock = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })

export function Session({ caller: { api_key, source_ip, role } }: { caller: Shapes['Caller'] }) {
  const session = $api.useQuery('get', '/dashboard_session')
  return (
    <Loaded query={session} lines={2}>
      {({ created_at, expires_at }) => (
        <>
          <Line title="This browser" end={<span className="mono">{source_ip ?? 'unknown address'}</span>}>
            Signed in <Ago at={created_at} /> as {role}. The session ends at {clock.format(new Date(expires_at))}.
          </Line>
          <Line title="API key of this session" end={<Link to={`/keys/${api_key.id}`}>Open key</Link>}>
            <CopyId id={api_key.id} />
          </Line>
        </>
      )}
    </Loaded>
  )
}
