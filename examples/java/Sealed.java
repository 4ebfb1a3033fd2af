import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Opens and seals contents of jobs as {@code [seal]} of jobwright does: JWE (RFC 7516) with A256KW and A256GCM. It needs only the
 * JDK. An application with a JOSE library (Nimbus, jose4j) can use that instead: the algorithms and the header are standard.
 *
 * <pre>
 * java Sealed open KIND PART &lt; sealed &gt; plain
 * java Sealed seal KIND PART [CONTENT_TYPE] &lt; plain &gt; sealed
 * </pre>
 *
 * KIND is the job's kind, PART is {@code payload} or {@code result}. A worker of an external queue gets a sealed payload with the
 * content type {@code application/jose}; a producer sends one with that content type.
 *
 * <p>Environment: SEAL_KEY, the key as ID=BASE64. Exit codes: 0, 1 could not be opened or sealed (the reason is on standard error),
 * 2 wrong usage.
 */
public final class Sealed {
    private static final Base64.Encoder ENCODER = Base64.getUrlEncoder().withoutPadding();
    private static final Base64.Decoder DECODER = Base64.getUrlDecoder();
    private static final int TAG_BITS = 128;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final String id;
    private final byte[] key;

    /** A key of 32 bytes and its id, which everything sealed with it contains. */
    Sealed(String id, byte[] key) {
        if (id.isEmpty() || key.length != 32) {
            throw new IllegalArgumentException("SEAL_KEY is not ID=BASE64 with 32 bytes");
        }
        this.id = id;
        this.key = key;
    }

    /** Opens a content. Refuses one that was sealed for another kind or part, because it was moved there. */
    byte[] open(String sealed, String kind, String part) throws GeneralSecurityException {
        String[] parts = sealed.split("\\.", -1);
        if (parts.length != 5) {
            throw new GeneralSecurityException("it is not a JWE of five parts");
        }
        String header = new String(DECODER.decode(parts[0]), StandardCharsets.UTF_8);
        require(header, "alg", "A256KW");
        require(header, "enc", "A256GCM");
        require(header, "kid", id);
        require(header, "typ", "jobwright-" + part);
        require(header, "kind", kind);
        if (header.contains("\"zip\"") || header.contains("\"crit\"")) {
            throw new GeneralSecurityException("it is compressed or extended, which this example does not read");
        }
        Cipher unwrap = Cipher.getInstance("AESWrap");
        unwrap.init(Cipher.UNWRAP_MODE, new SecretKeySpec(key, "AES"));
        SecretKeySpec own = (SecretKeySpec) unwrap.unwrap(DECODER.decode(parts[1]), "AES", Cipher.SECRET_KEY);
        byte[] text = DECODER.decode(parts[3]);
        byte[] tag = DECODER.decode(parts[4]);
        byte[] body = Arrays.copyOf(text, text.length + tag.length);
        System.arraycopy(tag, 0, body, text.length, tag.length);
        return gcm(Cipher.DECRYPT_MODE, own, DECODER.decode(parts[2]), parts[0]).doFinal(body);
    }

    String seal(byte[] content, String contentType, String kind, String part) throws GeneralSecurityException {
        String header = String.format("{\"kid\":%s,\"alg\":\"A256KW\",\"enc\":\"A256GCM\",\"typ\":%s,\"cty\":%s,\"kind\":%s}",
                quoted(id), quoted("jobwright-" + part), quoted(contentType), quoted(kind));
        String protectedHeader = ENCODER.encodeToString(header.getBytes(StandardCharsets.UTF_8));
        byte[] own = new byte[32];
        byte[] nonce = new byte[12];
        RANDOM.nextBytes(own);
        RANDOM.nextBytes(nonce);
        SecretKeySpec contentKey = new SecretKeySpec(own, "AES");
        Cipher wrap = Cipher.getInstance("AESWrap");
        wrap.init(Cipher.WRAP_MODE, new SecretKeySpec(key, "AES"));
        byte[] body = gcm(Cipher.ENCRYPT_MODE, contentKey, nonce, protectedHeader).doFinal(content);
        int length = body.length - TAG_BITS / 8;
        return String.join(".", protectedHeader, ENCODER.encodeToString(wrap.wrap(contentKey)), ENCODER.encodeToString(nonce),
                ENCODER.encodeToString(Arrays.copyOf(body, length)),
                ENCODER.encodeToString(Arrays.copyOfRange(body, length, body.length)));
    }

    private static Cipher gcm(int mode, SecretKeySpec key, byte[] nonce, String header) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(mode, key, new GCMParameterSpec(TAG_BITS, nonce));
        cipher.updateAAD(header.getBytes(StandardCharsets.US_ASCII));
        return cipher;
    }

    /** Reads the header: a flat object of strings, written by jobwright or this program, and authenticated before it is trusted. */
    private static void require(String header, String name, String value) throws GeneralSecurityException {
        Matcher found = Pattern.compile("\"" + name + "\"\\s*:\\s*" + Pattern.quote(quoted(value))).matcher(header);
        if (!found.find()) {
            throw new GeneralSecurityException("its " + name + " is not " + value);
        }
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    public static void main(String[] args) throws IOException {
        if (args.length < 3 || args.length > 4 || !(args[0].equals("open") || args[0].equals("seal"))) {
            System.err.println("usage: Sealed open|seal KIND PART [CONTENT_TYPE]");
            System.exit(2);
        }
        try {
            String setting = System.getenv().getOrDefault("SEAL_KEY", "");
            int at = Math.max(0, setting.indexOf('='));
            Sealed sealed = new Sealed(setting.substring(0, at), Base64.getDecoder().decode(setting.substring(Math.min(at + 1, setting.length()))));
            byte[] content = System.in.readAllBytes();
            if (args[0].equals("open")) {
                System.out.write(sealed.open(new String(content, StandardCharsets.US_ASCII).trim(), args[1], args[2]));
            } else {
                System.out.print(sealed.seal(content, args.length > 3 ? args[3] : "application/json", args[1], args[2]));
            }
            System.out.flush();
        } catch (GeneralSecurityException | IllegalArgumentException error) {
            System.err.println(args[0] + " failed: " + error.getMessage());
            System.exit(1);
        }
    }
}
