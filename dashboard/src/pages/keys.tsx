import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useNavigate, useParams } from 'react-router'
import { $api } from '../api/client.ts'
import { usePeople, useWaitingKeys } from '../api/people.ts'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty } from '../ui/states.tsx'
import { Toolbar } from '../ui/toolbar.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { keyColumns } from './keys/columns.tsx'
import { CreateKey } from './keys/create.tsx'
import { DeleteKey } from './keys/delete.tsx'
import { DeleteAll } from './keys/delete_all.tsx'
import { KeyDetail } from './keys/detail.tsx'
import { EditKey } from './keys/edit.tsx'
import { type ApiKey, expiryOf, isUnused, nameOf } from './keys/key.tsx'
import { RotateKey } from './keys/rotate.tsx'

type Open = { action: 'create' } | { action: 'edit' | 'rotate' | 'delete'; key: ApiKey }
type View = 'all' | 'own' | 'expiring' | 'expired' | 'unused'

export function Keys() {
  const { id } = useParams()
  return id ? <KeyDetail key={id} id={id} /> : <KeyList />
}

function KeyList() {
  const caller = $api.useQuery('get', '/caller').data
  const keys = useQuery(queries.keys())
  const waiting = useWaitingKeys()
  const [open, setOpen] = useState<Open>()
  useOpenOnArrival(() => setOpen({ action: 'create' }))
  const close = () => setOpen(undefined)
  return (
    <>
      <PageHeader title="API keys" summary={keys.data && summaryOf(keys.data, waiting)}>
        <Button kind="primary" icon="plus" onPress={() => setOpen({ action: 'create' })}>
          Create key
        </Button>
      </PageHeader>
      <Loaded query={keys} lines={8}>
        {(rows) => <KeyTable keys={rows} caller={caller} onOpen={setOpen} readAgain={() => keys.refetch()} />}
      </Loaded>
      {open?.action === 'create' && <CreateKey onClose={close} />}
      {open?.action === 'edit' && <EditKey apiKey={open.key} onClose={close} />}
      {open?.action === 'rotate' && (
        <RotateKey apiKey={open.key} isOwnSession={open.key.id === caller?.api_key.id} onClose={close} />
      )}
      {open?.action === 'delete' && <DeleteKey apiKey={open.key} callerKeyId={caller?.api_key.id} onClose={close} />}
    </>
  )
}

type Caller = { owner_id: string; role: string; api_key: { id: string } }

const mayChangeOf = (key: ApiKey, caller: Caller | undefined): boolean =>
  caller?.role === 'admin' || (caller?.role === 'member' && key.owner_id === caller.owner_id)

type TableProps = {
  keys: readonly ApiKey[]
  caller: Caller | undefined
  onOpen: (open: Open) => void
  readAgain: () => unknown
}

function KeyTable({ keys, caller, onOpen, readAgain }: TableProps) {
  const people = usePeople()
  const waiting = useWaitingKeys()
  const navigate = useNavigate()
  const [search, setSearch] = useState('')
  const [view, setView] = useUrlState<View>('show', 'all')
  const columns = useMemo(
    () =>
      keyColumns({
        ownerOf: (key) => people?.find(({ id }) => id === key.owner_id),
        callerKeyId: caller?.api_key.id,
        isWaiting: ({ id }) => waiting.has(id),
        menuOf: (key) => {
          const isAdmin = caller?.role === 'admin'
          const mayChange = mayChangeOf(key, caller)
          return [
            {
              entries: [
                ...(mayChange
                  ? [
                      { label: 'Edit key…', icon: 'edit' as const, onAction: () => onOpen({ action: 'edit', key }) },
                      {
                        label: 'Rotate token…',
                        icon: 'rotate' as const,
                        onAction: () => onOpen({ action: 'rotate', key }),
                      },
                    ]
                  : []),
                ...(isAdmin
                  ? [
                      {
                        label: 'View changes',
                        icon: 'audit' as const,
                        onAction: () => void navigate(`/audit?resource=${key.id}`),
                      },
                    ]
                  : []),
                {
                  label: 'Copy ID',
                  icon: 'copy' as const,
                  onAction: () => void navigator.clipboard?.writeText(key.id).catch(() => {}),
                },
              ],
            },
            ...(mayChange
              ? [
                  {
                    entries: [
                      {
                        label: 'Delete key…',
                        icon: 'trash' as const,
                        isDanger: true,
                        onAction: () => onOpen({ action: 'delete', key }),
                      },
                    ],
                  },
                ]
              : []),
          ]
        },
      }),
    [people, waiting, caller, navigate, onOpen],
  )
  const views: Record<View, (key: ApiKey) => boolean> = {
    all: () => true,
    own: (key) => key.owner_id === caller?.owner_id,
    expiring: (key) => expiryOf(key) === 'soon' && !waiting.has(key.id),
    expired: (key) => expiryOf(key) === 'over',
    unused: isUnused,
  }
  const wanted = search.trim().toLowerCase()
  const found = keys
    .filter(views[view] ?? views.all)
    .filter((key) =>
      `${nameOf(key)} ${key.id} ${people?.find(({ id }) => id === key.owner_id)?.name ?? ''}`
        .toLowerCase()
        .includes(wanted),
    )
  const count = (name: View) => keys.filter(views[name]).length
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name, owner or ID"
        chosen={view}
        onChoose={setView}
        chips={[
          { value: 'all', label: 'All keys', count: keys.length },
          { value: 'own', label: 'Yours', count: count('own') },
          { value: 'expiring', label: 'Expire this week', count: count('expiring') },
          { value: 'expired', label: 'Expired', count: count('expired') },
          { value: 'unused', label: 'Unused 30 days', count: count('unused') },
        ]}
      />
      {(view === 'unused' || view === 'expired') && found.length > 0 && (
        <DeleteAll
          view={view}
          keys={found.filter((key) => mayChangeOf(key, caller) && key.id !== caller?.api_key.id)}
          readAgain={readAgain}
        />
      )}
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No matching keys" />
        </div>
      ) : (
        <DataTable label="API keys" rows={found} keyOf={({ id }) => id} columns={columns} isTwoLine />
      )}
    </>
  )
}

/** '11 keys. 1 has expired, 1 expires this week, 3 were not used in the last 30 days.' */
function summaryOf(keys: readonly ApiKey[], waiting: ReadonlySet<string>): string {
  const expired = keys.filter((key) => expiryOf(key) === 'over').length
  const expiring = keys.filter((key) => expiryOf(key) === 'soon' && !waiting.has(key.id)).length
  const unused = keys.filter(isUnused).length
  const open = keys.filter(({ id }) => waiting.has(id)).length
  const parts = [
    expired && `${expired} ${expired === 1 ? 'has' : 'have'} expired`,
    expiring && `${expiring} ${expiring === 1 ? 'expires' : 'expire'} this week`,
    unused && `${unused} ${unused === 1 ? 'was' : 'were'} not used in the last 30 days`,
    open && `${open} ${open === 1 ? 'waits' : 'wait'} for an invitation to be accepted`,
  ].filter(Boolean)
  const total = `${keys.length} ${keys.length === 1 ? 'key' : 'keys'}.`
  return parts.length ? `${total} ${parts.join(', ')}.` : `${total} All were used recently, and none expires soon.`
}
