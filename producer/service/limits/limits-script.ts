import { RedisScript } from '../../../shared/runtime/redis-script.ts';
import { MEMORY_MS } from '../pace.ts';
import { ACTIVE_US } from './decide.ts';

/** A producer that has not been heard of for this long is dead, in microseconds. */
export const SILENCE_US = 15_000_000;
/** Everything goes when no producer has been heard of for this long, in ms. */
const KEEP_MS = 60_000;
/** The counts of one producer outlive it and those of all, so that others can take them back whenever they come to it, in ms. */
const KEEP_OWN_MS = 3_600_000;

/*
 * Three keys: the counts of all (a hash of holders: `t` in all, `m/NAME` a model, `k/NAME` a tenant), the counts of one
 * producer (the same fields, and a few of its own with a dot in front), and the producers by when they were last heard of.
 * A
 * producer whose `.born` is not that of the counts was counted in others, which are gone. A holder is nine numbers in a text: requests, rows, bytes, weight, asked, due, and its rate (left, at, since); those of a
 * producer have the first three. Times are microseconds.
 */
const COMMON = `
local ACTIVE, MEMORY = ${ACTIVE_US}, ${MEMORY_MS * 1000}

local function parse(text)
  local holder = {}
  for number in string.gmatch(text, '%S+') do holder[#holder + 1] = tonumber(number) end
  return holder
end

local function read(key)
  local holders, fields = {}, redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) ~= '.' then holders[fields[i]] = parse(fields[i + 1]) end
  end
  return holders
end

local function text(holder)
  local parts = {}
  for i = 1, #holder do parts[i] = string.format(i == 7 and '%.17g' or '%.0f', holder[i]) end
  return table.concat(parts, ' ')
end

local function time(given)
  if given ~= '' then return tonumber(given) end
  local now = redis.call('TIME')
  return now[1] * 1000000 + now[2]
end

local function is_active(holder, now)
  return holder[1] > 0 or now - holder[5] <= ACTIVE
end

local function give_back(totals, mine)
  local all = read(totals)
  for name, held in pairs(mine) do
    local holder = all[name]
    if holder then
      for what = 1, 3 do holder[what] = math.max(0, holder[what] - held[what]) end
      redis.call('HSET', totals, name, text(holder))
    end
  end
end
`;

/**
 * One call of a producer: whether it counts anew, what leaves, what comes back after it was lost, what wants to come in.
 * Answers with the epoch of the producer's counts, and a text for each that wants to come in: '' for yes, else the figures
 * of a refusal. What leaves with another epoch was counted in counts that are gone. A call that comes twice, because the connection broke under it,
 * is answered the second time as the first time, and changes nothing.
 */
export const ENTER_AND_LEAVE = new RedisScript(`${COMMON}
local totals, own, producers = KEYS[1], KEYS[2], KEYS[3]
local at = 3
local function word() at = at + 1; return ARGV[at] end
local function number() return tonumber(word()) end

local producer, call = ARGV[1], ARGV[2]
local now = time(ARGV[3])
redis.call('ZADD', producers, now, producer)
redis.call('PEXPIRE', producers, ${KEEP_MS})
local before = redis.call('HMGET', own, '.call', '.answer', '.epoch', '.born')
if before[1] == call then return cjson.decode(before[2]) end
local epoch, born = before[3], redis.call('HGET', totals, '.born')
local is_mine = epoch and born and before[4] == born
local anew = number() == 1
if anew or not is_mine then
  if is_mine then give_back(totals, read(own)) end
  redis.call('UNLINK', own)
  epoch = string.format('%.0f', math.max(now, (tonumber(epoch or 0)) + 1))
end
if not born then
  born = epoch
  redis.call('HSET', totals, '.born', born)
end

local all, mine, changed = read(totals), read(own), {}
for name, holder in pairs(all) do
  if name ~= 't' and not is_active(holder, now) and holder[6] <= now then
    redis.call('HDEL', totals, name)
    all[name] = nil
  end
end

-- By kind: the weights of the active, and what they may still claim of each limit. Who comes in changes it, not all anew.
local shares = {}

local function room(holder, what, limit, weights)
  return math.max(0, math.floor(limit * holder[4] / weights) - holder[what])
end

local function find(name, weight)
  local holder = all[name]
  local is_known = holder and holder[4] == weight and is_active(holder, now)
  if not holder then
    holder = {0, 0, 0, 1, now, 0, 0, now, now}
    all[name] = holder
  end
  if weight then
    if not is_known then shares[string.sub(name, 1, 2)] = nil end
    holder[4], holder[5] = weight, now
  end
  changed[name] = true
  return holder
end

local function add(name, rows, bytes)
  local holder = find(name)
  if holder[1] == 0 then holder[9], holder[8] = holder[9] + now - holder[8], now end
  local held = mine[name] or {0, 0, 0}
  mine[name] = held
  local share, before = shares[string.sub(name, 1, 2)], {holder[1], holder[2], holder[3], holder[4]}
  for _, counts in ipairs({holder, held}) do
    counts[1], counts[2], counts[3] = counts[1] + 1, counts[2] + rows, counts[3] + bytes
  end
  for what, kept in pairs(share and share.kept or {}) do
    kept.sum = kept.sum + room(holder, what, kept.limit, share.weights) - room(before, what, kept.limit, share.weights)
  end
end

local function take(name, rows, bytes)
  local holder, held = find(name), mine[name]
  if not held then return end
  for _, counts in ipairs({holder, held}) do
    counts[1], counts[2] = math.max(0, counts[1] - 1), math.max(0, counts[2] - rows)
    counts[3] = math.max(0, counts[3] - bytes)
  end
  holder[7] = holder[7] * math.exp((holder[8] - now) / MEMORY) + 1
  holder[8] = now
end

local function each_of(model, tenant, change, rows, bytes)
  change('t', rows, bytes)
  change('m/' .. model, rows, bytes)
  if tenant ~= '' then change('k/' .. tenant, rows, bytes) end
end

local function refuse(scope, what, kept, holder, shown, limit, excess, wait)
  local speed = ''
  if holder[7] > 0 then
    local till = holder[1] == 0 and holder[8] or now
    local seen = 1 - math.exp((holder[9] - till) / MEMORY)
    local left = holder[7] * math.exp((holder[8] - till) / MEMORY)
    if seen > 0 then speed = string.format('%.17g', left / seen * 1000000 / MEMORY) end
  end
  return string.format('%d %d %d %.0f %.0f %.0f %.0f %.0f ', scope, what, kept, shown, limit, excess, holder[1], wait) .. speed
end

local function above_limit(scope, holder, ask, max)
  for what = 1, 3 do
    local excess = holder[what] + ask[what] - max[what]
    if max[what] > 0 and excess > 0 then return refuse(scope, what, 0, holder, holder[what], max[what], excess, 0) end
  end
end

local function share_of(kind)
  local share = shares[kind]
  if not share then
    share = {weights = 0, kept = {}, active = {}}
    for name, other in pairs(all) do
      if string.sub(name, 1, 2) == kind and is_active(other, now) then
        share.weights = share.weights + other[4]
        share.active[#share.active + 1] = other
      end
    end
    shares[kind] = share
  end
  return share
end

local function kept_of(share, what, limit)
  local kept = share.kept[what]
  if not kept or kept.limit ~= limit then
    kept = {limit = limit, sum = 0}
    for _, other in ipairs(share.active) do kept.sum = kept.sum + room(other, what, limit, share.weights) end
    share.kept[what] = kept
  end
  return kept.sum
end

local function above_share(kind, kept_for, holder, ask, pool)
  for what = 1, 3 do
    local limit = pool[what]
    if limit > 0 then
      local share = share_of(kind)
      if holder[what] + ask[what] > math.floor(limit * holder[4] / share.weights) then
        local kept = kept_of(share, what, limit) - room(holder, what, limit, share.weights)
        local total = find('t')
        local excess = total[what] + ask[what] + kept - limit
        if excess > 0 then return refuse(0, what, kept_for, total, total[what], limit, excess, 0) end
      end
    end
  end
end

local function enter(pool)
  local model, tenant = word(), word()
  local ask = {1, number(), number()}
  local holder = find('m/' .. model, number())
  local max = {number(), number(), number()}
  local payer = tenant ~= '' and find('k/' .. tenant, number())
  local own_max, interval, burst
  if payer then own_max, interval, burst = {number(), number(), number()}, number(), number() end
  local refusal = above_limit(1, holder, ask, max)
  if not refusal and payer then
    refusal = above_limit(2, payer, ask, own_max)
    if not refusal and interval > 0 then
      local wait = math.max(payer[6], now) - now - (burst - 1) * interval
      if wait > 0 then refusal = refuse(2, 4, 0, payer, payer[1], burst, 1, wait) end
    end
  end
  refusal = refusal or above_limit(0, find('t'), ask, pool) or above_share('m/', 1, holder, ask, pool)
  if not refusal and payer then refusal = above_share('k/', 2, payer, ask, pool) end
  if refusal then return refusal end
  if payer and interval > 0 then payer[6] = math.max(payer[6], now) + interval end
  each_of(model, tenant, add, ask[2], ask[3])
  return ''
end

for _ = 1, number() do
  local of, model, tenant, rows, bytes = word(), word(), word(), number(), number()
  if of == epoch then each_of(model, tenant, take, rows, bytes) end
end
for _ = 1, number() do
  local model, tenant, rows, bytes = word(), word(), number(), number()
  each_of(model, tenant, add, rows, bytes)
end
local answer = {epoch}
for _ = 1, number() do
  answer[#answer + 1] = enter({number(), number(), number()})
end

for name in pairs(changed) do
  redis.call('HSET', totals, name, text(all[name]))
  local held = mine[name]
  if held and held[1] > 0 then redis.call('HSET', own, name, text(held))
  elseif held then redis.call('HDEL', own, name) end
end
redis.call('HSET', own, '.call', call, '.answer', cjson.encode(answer), '.epoch', epoch, '.born', born)
redis.call('PEXPIRE', totals, ${KEEP_MS})
redis.call('PEXPIRE', own, ${KEEP_OWN_MS})
return answer`);

/** Takes back what a producer has in hand that was not heard of for a given time, and forgets it; the last one ends all. */
export const TAKE_BACK = new RedisScript(`${COMMON}
local totals, own, producers = KEYS[1], KEYS[2], KEYS[3]
local now = time(ARGV[3])
local heard = redis.call('ZSCORE', producers, ARGV[1])
if not heard or tonumber(heard) > now - tonumber(ARGV[2]) then return 0 end
local born = redis.call('HGET', totals, '.born')
if born and born == redis.call('HGET', own, '.born') then give_back(totals, read(own)) end
redis.call('UNLINK', own)
redis.call('ZREM', producers, ARGV[1])
if redis.call('ZCARD', producers) == 0 then redis.call('UNLINK', totals) end
return 1`);
