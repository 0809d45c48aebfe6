import { Link } from 'react-router'
import { ago } from '../../../../src/kernel/ago.ts'
import { Avatar } from '../../ui/avatar.tsx'
import type { MenuGroup } from '../../ui/menu.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { State } from '../../ui/state.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { Access } from './access.tsx'
import { type ApiKey, expiryOf, nameOf, UsedAt } from './key.tsx'

type Owner = { name: string; kind: 'user' | 'bot' }
type Options = {
  ownerOf: (key: ApiKey) => Owner | undefined
  callerKeyId: string | undefined
  isWaiting: (key: ApiKey) => boolean
  menuOf: (key: ApiKey) => readonly MenuGroup[]
}

export const keyColumns = ({ ownerOf, callerKeyId, isWaiting, menuOf }: Options): Column<ApiKey>[] => [
  {
    title: 'Key',
    className: 'a1',
    width: '32%',
    isRowHead: true,
    sortBy: nameOf,
    cell: (key) => (
      <span className="two">
        <span>
          <Link to={`/keys/${key.id}`}>{nameOf(key)}</Link>{' '}
          {isWaiting(key) && <span className="tag">Not accepted yet</span>}{' '}
          {key.id === callerKeyId && <span className="tag">Used by you now</span>}{' '}
          {key.previous_token && <span className="tag">Old token expires {ago(key.previous_token.expires_at)}</span>}
        </span>
        {key.description && <small className="mono hide-small">{key.id}</small>}
      </span>
    ),
  },
  {
    title: 'Owner',
    className: 'b1',
    sortBy: (key) => ownerOf(key)?.name ?? key.owner_id,
    cell: (key) => <OwnerShown owner={ownerOf(key)} id={key.owner_id} />,
  },
  { title: 'Access', className: 'hide-small', cell: (key) => <Access apiKey={key} /> },
  {
    title: 'Addresses',
    className: 'low',
    cell: ({ allowed_cidrs: { length } }) =>
      length === 0 ? <span className="soft">Any</span> : length === 1 ? '1 range' : `${length} ranges`,
  },
  {
    title: 'Last used',
    className: 'b2',
    sortBy: ({ last_used_at }) => (last_used_at ? Date.parse(last_used_at) : 0),
    cell: ({ last_used_at, last_used_ip }) => (
      <span className="two">
        <span>{last_used_at ? <UsedAt hour={last_used_at} /> : <span className="soft">Never used</span>}</span>
        {last_used_ip && <small className="mono hide-small">{last_used_ip}</small>}
      </span>
    ),
  },
  {
    title: 'Expires',
    className: 'c1',
    sortBy: ({ expires_at }) => (expires_at ? Date.parse(expires_at) : Number.MAX_SAFE_INTEGER),
    cell: (key) => (
      <>
        <span className="show-small soft">Expires </span>
        <Expiry apiKey={key} isWaiting={isWaiting(key)} />
      </>
    ),
  },
  {
    title: 'Actions',
    titleHidden: true,
    className: 'menu-cell a2',
    width: '44px',
    cell: (key) => <MoreMenu label={`Actions for ${nameOf(key)}`} groups={() => menuOf(key)} />,
  },
]

function OwnerShown({ owner, id }: { owner: Owner | undefined; id: string }) {
  if (!owner) return <span className="mono fine">{id}</span>
  return (
    <span className="owner">
      <Avatar name={owner.name} kind={owner.kind} />
      {owner.name}
    </span>
  )
}

/** `isWaiting`: no one has the key yet, so no one would miss it. */
export function Expiry({ apiKey, isWaiting = false }: { apiKey: ApiKey; isWaiting?: boolean }) {
  const state = expiryOf(apiKey)
  const { expires_at: at } = apiKey
  if (!at) return <span className="soft">Never</span>
  if (state === 'over') return <State health="down">Expired {ago(at)}</State>
  if (state === 'soon' && !isWaiting) return <State health="partial">{ago(at)}</State>
  return <Ago at={at} />
}
