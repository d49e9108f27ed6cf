-- KEYS[1]  where the newest term is kept
-- ARGV[1]  the term that is shown
-- ARGV[2…] commands, each as the number of its words, then its words
local term, newest = ARGV[1], redis.call('GET', KEYS[1])
-- As text: Lua's numbers are exact only up to 2^53.
if newest and (#newest > #term or (#newest == #term and newest > term)) then
    return redis.error_reply('FENCED ' .. newest .. ' is the newest term, and this is ' .. term)
end
if newest ~= term then
    redis.call('SET', KEYS[1], term)
end
local replies, at = {}, 2
while at <= #ARGV do
    local words = tonumber(ARGV[at])
    replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, at + words))
    at = at + 1 + words
end
return replies
