import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Link, useNavigate } from 'react-router'
import { $api } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { queries } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { CopyId } from '../../ui/copy_id.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { PageMenu } from '../../ui/more_menu.tsx'
import { PageHeader } from '../../ui/page_header.tsx'
import { Section } from '../../ui/section.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { Ago } from '../../ui/time.tsx'
import { ChangeList } from '../audit/list.tsx'
import { Access, AllowedOperations } from './access.tsx'
import { Expiry } from './columns.tsx'
import { DeleteKey } from './delete.tsx'
import { EditKey } from './edit.tsx'
import { type ApiKey, nameOf, UsedAt } from './key.tsx'
import { RotateKey } from './rotate.tsx'

export function KeyDetail({ id }: { id: string }) {
  const key = $api.useQuery('get', '/api_keys/{id}', { params: { path: { id } } })
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  return (
    <>
      <Head id={id} apiKey={key.data} />
      <Loaded query={key} lines={8}>
        {(shown) => (
          <Tabs
            label="Parts of the key"
            tabs={[
              { id: 'access', title: 'Access', children: <Facts apiKey={shown} /> },
              ...(isAdmin
                ? [
                    { id: 'made', title: 'Changes made with it', children: <ChangeList apiKeyId={id} /> },
                    { id: 'history', title: 'History', children: <ChangeList resourceId={id} /> },
                  ]
                : []),
            ]}
          />
        )}
      </Loaded>
    </>
  )
}

function Head({ id, apiKey }: { id: string; apiKey: ApiKey | undefined }) {
  const caller = $api.useQuery('get', '/caller').data
  const [open, setOpen] = useState<'edit' | 'rotate' | 'delete'>()
  const navigate = useNavigate()
  const close = () => setOpen(undefined)
  const mayChange = apiKey && (caller?.role === 'admin' || caller?.owner_id === apiKey.owner_id)
  return (
    <>
      <PageHeader
        title={apiKey ? nameOf(apiKey) : id}
        parent={{ to: '/keys', name: 'API keys' }}
        status={id === caller?.api_key.id && <span className="tag">Used by you now</span>}
        meta={<CopyId id={id} />}
      >
        {mayChange && (
          <>
            <Button onPress={() => setOpen('rotate')}>Rotate token</Button>
            <Button kind="primary" onPress={() => setOpen('edit')}>
              Edit key
            </Button>
            <PageMenu
              groups={() => [
                {
                  entries: [{ label: 'Delete key…', icon: 'trash', isDanger: true, onAction: () => setOpen('delete') }],
                },
              ]}
            />
          </>
        )}
      </PageHeader>
      {apiKey && open === 'edit' && <EditKey apiKey={apiKey} onClose={close} />}
      {apiKey && open === 'rotate' && (
        <RotateKey apiKey={apiKey} isOwnSession={id === caller?.api_key.id} onClose={close} />
      )}
      {apiKey && open === 'delete' && (
        <DeleteKey
          apiKey={apiKey}
          callerKeyId={caller?.api_key.id}
          onClose={close}
          onDeleted={() => void navigate('/keys')}
        />
      )}
    </>
  )
}

function Facts({ apiKey }: { apiKey: ApiKey }) {
  const { owner_id, scopes, allowed_cidrs, created_at, created_by_key_id, rotated_at, previous_token } = apiKey
  return (
    <>
      <Section title="What it may do">
        <dl className="facts">
          <Fact name="Owner">
            <OwnerLink id={owner_id} />, whose role limits it, too
          </Fact>
          <Fact name="Access">
            <Access apiKey={apiKey} />
          </Fact>
          <Fact name="From">
            {allowed_cidrs.length === 0 ? 'Any address' : <span className="mono">{allowed_cidrs.join(', ')}</span>}
          </Fact>
          <Fact name="Expires">
            <Expiry apiKey={apiKey} />
          </Fact>
        </dl>
        <AllowedOperations scopes={scopes} />
      </Section>
      <Section title="Use">
        <dl className="facts">
          <Fact name="Last used">
            <LastUse apiKey={apiKey} />
          </Fact>
          <Fact name="Token">
            {rotated_at ? (
              <>
                Rotated <Ago at={rotated_at} />
              </>
            ) : (
              'Never rotated'
            )}
            {previous_token && (
              <>
                ; the old one works until <Ago at={previous_token.expires_at} />
              </>
            )}
          </Fact>
          <Fact name="Created">
            <Ago at={created_at} />
            {created_by_key_id && (
              <>
                {' '}
                with <KeyLink id={created_by_key_id} />
              </>
            )}
          </Fact>
        </dl>
      </Section>
    </>
  )
}

const Fact = ({ name, children }: { name: string; children: ReactNode }) => (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
)

function LastUse({ apiKey: { last_used_at, last_used_ip } }: { apiKey: ApiKey }) {
  if (!last_used_at) return <>Never</>
  return (
    <>
      <UsedAt hour={last_used_at} />
      {last_used_ip && (
        <>
          {' '}
          from <span className="mono">{last_used_ip}</span>
        </>
      )}
    </>
  )
}

export function OwnerLink({ id }: { id: string }) {
  const owner = usePeople()?.find((each) => each.id === id)
  return <Link to={`/people/${id}`}>{owner?.name ?? id}</Link>
}

/** Deleted keys have no page. */
function KeyLink({ id }: { id: string }) {
  const key = useQuery(queries.keys()).data?.find((each) => each.id === id)
  return key ? <Link to={`/keys/${id}`}>{nameOf(key)}</Link> : <span className="mono">{id}</span>
}
