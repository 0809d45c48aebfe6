import { useState } from 'react'
import { $api } from '../api/client.ts'
import { usePeople } from '../api/people.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { Name } from '../ui/name.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Ago, ago } from '../ui/time.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { CreateKey } from './keys/create.tsx'
import { DeleteKey } from './keys/delete.tsx'
import { type ApiKey, nameOf, UsedAt } from './keys/key.tsx'
import { RotateKey } from './keys/rotate.tsx'

type Open = { action: 'create' } | { action: 'rotate' | 'delete'; key: ApiKey }

export function Keys() {
  const caller = $api.useQuery('get', '/caller').data
  const people = usePeople()
  const keys = $api.useInfiniteQuery(
    'get',
    '/api_keys',
    {},
    {
      pageParamName: 'before_id',
      initialPageParam: null,
      getNextPageParam: (page) => (page.next_page_uri ? page.keys.at(-1)?.id : undefined),
    },
  )
  const [open, setOpen] = useState<Open>()
  useOpenOnArrival(() => setOpen({ action: 'create' }))
  const close = () => setOpen(undefined)
  const rows = keys.data?.pages.flatMap((page) => page.keys) ?? []
  const mayChange = (key: ApiKey) => caller?.role === 'admin' || key.owner_id === caller?.owner_id
  const ownerOf = (key: ApiKey) => people?.find(({ id }) => id === key.owner_id)

  return (
    <>
      <PageHeader
        title="API keys"
        summary="Anyone with a token can call the API as its owner. A token is shown once and stored only as a hash."
      />
      <section className="card" aria-label="API keys">
        <header>
          <h2>
            {rows.length
              ? `${rows.length}${keys.hasNextPage ? '+' : ''} ${rows.length === 1 ? 'key' : 'keys'}`
              : 'Keys'}
          </h2>
          <Button kind="primary" icon="plus" onPress={() => setOpen({ action: 'create' })}>
            Create key
          </Button>
        </header>
        {keys.isPending && (
          <div className="body">
            <Skeleton lines={6} />
          </div>
        )}
        {keys.isError && (
          <div className="body">
            <ProblemNote error={keys.error} retry={() => keys.refetch()} />
          </div>
        )}
        {rows.length > 0 && (
          <table className="stack">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">Owner</th>
                <th scope="col">Last used</th>
                <th scope="col">Expires</th>
                <th scope="col">Created</th>
                <th scope="col">
                  <span className="for-readers">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((key) => (
                <tr key={key.id}>
                  <th scope="row">
                    <Name id={key.id} text={key.description} />{' '}
                    {key.id === caller?.api_key.id && <Badge tone="neutral">This session</Badge>}
                  </th>
                  <td data-label="Owner">{ownerOf(key)?.name ?? <span className="mono fine">{key.owner_id}</span>}</td>
                  <td data-label="Last used">
                    <LastUse key_={key} />
                  </td>
                  <td data-label="Expires">
                    <Expiry at={key.expires_at} />
                  </td>
                  <td data-label="Created">
                    <Ago at={key.created_at} />
                  </td>
                  <td>
                    {mayChange(key) && (
                      <div className="actions">
                        <Button aria-label={`Rotate ${nameOf(key)}`} onPress={() => setOpen({ action: 'rotate', key })}>
                          Rotate
                        </Button>
                        <Button aria-label={`Delete ${nameOf(key)}`} onPress={() => setOpen({ action: 'delete', key })}>
                          Delete
                        </Button>
                      </div>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
        {keys.hasNextPage && (
          <div className="body">
            <Button isPending={keys.isFetchingNextPage} onPress={() => keys.fetchNextPage()}>
              Show older keys
            </Button>
          </div>
        )}
      </section>
      {open?.action === 'create' && <CreateKey onClose={close} />}
      {open?.action === 'rotate' && (
        <RotateKey apiKey={open.key} isOwnSession={open.key.id === caller?.api_key.id} onClose={close} />
      )}
      {open?.action === 'delete' && <DeleteKey apiKey={open.key} callerKeyId={caller?.api_key.id} onClose={close} />}
    </>
  )
}

function LastUse({ key_: { last_used_at, last_used_ip, previous_token } }: { key_: ApiKey }) {
  return (
    <span className="name">
      <span>{last_used_at ? <UsedAt hour={last_used_at} /> : <span className="soft">Never</span>}</span>
      {last_used_ip && <span className="mono fine">{last_used_ip}</span>}
      {previous_token && <span className="fine">Old token expires {ago(previous_token.expires_at)}</span>}
    </span>
  )
}

function Expiry({ at }: { at: string | null }) {
  if (!at) return <span className="soft">Never</span>
  const left = Date.parse(at) - Date.now()
  if (left <= 0) return <Badge tone="refused">Expired</Badge>
  if (left < 7 * 86_400_000) return <Badge tone="warned">{ago(at)}</Badge>
  return <Ago at={at} />
}
